import { createHash } from 'node:crypto';
import { sshString, SshReader } from './ssh-wire.ts';

/** The namespace git signs commits and push certificates in. */
const NAMESPACE = 'git';
const HASH = 'sha512';
const MAGIC = 'SSHSIG';
const BEGIN = '-----BEGIN SSH SIGNATURE-----';
const END = '-----END SSH SIGNATURE-----';

/**
 * An armoured SSH signature in git's namespace, as `ssh-keygen -Y sign -n git` makes it (OpenSSH, PROTOCOL.sshsig).
 * `sign` makes the raw Ed25519 signature, `keyBlob` is the public key in wire format. No newline at the end.
 */
export function sshSign(message: Uint8Array, keyBlob: Buffer, sign: (data: Buffer) => Buffer): string {
  const digest = createHash(HASH).update(message).digest();
  const data = [sshString(NAMESPACE), sshString(''), sshString(HASH), sshString(digest)];
  const raw = sign(Buffer.concat([Buffer.from(MAGIC), ...data]));
  return armour(keyBlob, Buffer.concat([sshString('ssh-ed25519'), sshString(raw)]));
}

/**
 * The public key, in wire format, that a signature names, before anything is proven; undefined unless it is spelled as
 * {@link sshSign} spells it. `ssh-keygen` passes over blanks and reserved bytes: here no byte of a signature is free.
 */
export function keyOfSshSignature(armoured: string): Buffer | undefined {
  const reader = new SshReader(Buffer.from(armoured.slice(BEGIN.length, -END.length), 'base64'));
  try {
    reader.take(MAGIC.length + 4);
    const keyBlob = reader.string();
    // Namespace, reserved bytes, hash.
    reader.string();
    reader.string();
    reader.string();
    return armour(keyBlob, reader.string()) === armoured ? keyBlob : undefined;
  } catch {
    return undefined;
  }
}

function armour(keyBlob: Buffer, signature: Buffer): string {
  const blob = Buffer.concat([
    Buffer.from(MAGIC),
    Buffer.from([0, 0, 0, 1]),
    sshString(keyBlob),
    sshString(NAMESPACE),
    sshString(''),
    sshString(HASH),
    sshString(signature),
  ]);
  const lines = blob.toString('base64').match(/.{1,70}/g) ?? [];
  return [BEGIN, ...lines, END].join('\n');
}
