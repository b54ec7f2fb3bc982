/** How many parts the blob of a key has, by its type, which is the first of them. */
const PARTS: ReadonlyMap<string, number> = new Map([
  ['ssh-ed25519', 2],
  ['ecdsa-sha2-nistp256', 3],
  ['ecdsa-sha2-nistp384', 3],
  ['ecdsa-sha2-nistp521', 3],
  ['ssh-rsa', 3],
  ['sk-ssh-ed25519@openssh.com', 3],
  ['sk-ecdsa-sha2-nistp256@openssh.com', 4],
]);

/** The kinds of keys whose signatures are taken. */
export const PUBLIC_KEY_TYPES: readonly string[] = [...PARTS.keys()];

/**
 * A public key as `ssh-keygen` writes it to a `.pub` file, in the one spelling that may be compared: type and base64,
 * without the comment. Undefined if it is none; options and certificates in its place are none.
 */
export function normalizePublicKey(line: string): string | undefined {
  const [type = '', base64 = ''] = line.trim().split(/ +/);
  if (!PUBLIC_KEY_TYPES.includes(type)) return undefined;
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
  return PUBLIC_KEY_TYPES.includes(type) ? `${type} ${blob.toString('base64')}` : undefined;
}

/**
 * Whether nothing is missing from a key that {@link normalizePublicKey} gave. One that is cut off is a key as well, of
 * which nobody has the other half; who reads members takes it, who makes them should not.
 */
export function isWholePublicKey(key: string): boolean {
  const [type = '', base64 = ''] = key.split(' ');
  const blob = Buffer.from(base64, 'base64');
  let [parts, at] = [0, 0];
  while (at + 4 <= blob.length) {
    at += 4 + blob.readUInt32BE(at);
    parts += 1;
  }
  return at === blob.length && parts === PARTS.get(type);
}
