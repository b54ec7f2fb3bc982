const TYPES = [
  'ssh-ed25519',
  'ecdsa-sha2-nistp256',
  'ecdsa-sha2-nistp384',
  'ecdsa-sha2-nistp521',
  'ssh-rsa',
  'sk-ssh-ed25519@openssh.com',
  'sk-ecdsa-sha2-nistp256@openssh.com',
];

/**
 * A public key as `ssh-keygen` writes it to a `.pub` file, in the one spelling that may be compared: type and base64,
 * without the comment. Undefined if it is none; options and certificates in its place are none.
 */
export function normalizePublicKey(line: string): string | undefined {
  const [type = '', base64 = ''] = line.trim().split(/ +/);
  if (!TYPES.includes(type)) return undefined;
  const blob = Buffer.from(base64, 'base64');
  return blob.toString('base64') === base64 && publicKeyOf(blob) === `${type} ${base64}`
    ? `${type} ${base64}`
    : undefined;
}

/** The same for a key in SSH wire format, which begins with its type. */
export function publicKeyOf(blob: Buffer): string | undefined {
  if (blob.length < 8) return undefined;
  const end = 4 + blob.readUInt32BE(0);
  const type = end < blob.length ? blob.toString('latin1', 4, end) : '';
  return TYPES.includes(type) ? `${type} ${blob.toString('base64')}` : undefined;
}
