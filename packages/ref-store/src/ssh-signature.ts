import { createHash, verify } from 'node:crypto';
import { ed25519PublicKey } from './ed25519-key.ts';
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
  const signature = Buffer.concat([sshString('ssh-ed25519'), sshString(sign(signedData(message)))]);
  const blob = Buffer.concat([
    Buffer.from(MAGIC),
    Buffer.from([0, 0, 0, 1]),
    sshString(keyBlob),
    sshString(NAMESPACE),
    sshString(''),
    sshString(HASH),
    sshString(signature),
  ]);
  return armour(blob);
}

/**
 * The public key, in wire format, whose signature over the message this is; undefined if it is not a valid one. Accepts
 * the spelling that {@link sshSign} makes and no other.
 */
export function sshVerify(message: Uint8Array, armoured: string): Buffer | undefined {
  const blob = Buffer.from(armoured.slice(BEGIN.length, -END.length), 'base64');
  // Decoding skips what is not base64; only one spelling of a signature is accepted, so that no byte of it is free.
  if (armour(blob) !== armoured) return undefined;
  try {
    const reader = new SshReader(blob);
    if (reader.take(MAGIC.length).toString() !== MAGIC || reader.uint32() !== 1) return undefined;
    const keyBlob = reader.string();
    if (reader.string().toString() !== NAMESPACE || reader.string().length !== 0) return undefined;
    if (reader.string().toString() !== HASH) return undefined;
    const signature = new SshReader(reader.string());
    if (!reader.isAtEnd || signature.string().toString() !== 'ssh-ed25519') return undefined;
    const isValid = verify(null, signedData(message), ed25519PublicKey(keyBlob), signature.string());
    return isValid && signature.isAtEnd ? keyBlob : undefined;
  } catch {
    return undefined;
  }
}

function armour(blob: Buffer): string {
  const lines = blob.toString('base64').match(/.{1,70}/g) ?? [];
  return [BEGIN, ...lines, END].join('\n');
}

function signedData(message: Uint8Array): Buffer {
  return Buffer.concat([
    Buffer.from(MAGIC),
    sshString(NAMESPACE),
    sshString(''),
    sshString(HASH),
    sshString(createHash(HASH).update(message).digest()),
  ]);
}
