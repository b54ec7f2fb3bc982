import { createPrivateKey, type KeyObject } from 'node:crypto';
import { sshString, SshReader } from './ssh-wire.ts';

const TYPE = 'ssh-ed25519';

/** A public key in SSH wire format: what the base64 of a `ssh-ed25519 AAAA…` line holds. */
export function ed25519Blob(publicKey: KeyObject): Buffer {
  const { x } = publicKey.export({ format: 'jwk' });
  return Buffer.concat([sshString(TYPE), sshString(Buffer.from(x!, 'base64url'))]);
}

/** Reads an unencrypted Ed25519 private key, PKCS8 PEM or OpenSSH's own format; throws a plain Error saying why not. */
export function ed25519PrivateKey(text: string): KeyObject {
  const key = text.includes('BEGIN OPENSSH PRIVATE KEY') ? openSshPrivateKey(text) : createPrivateKey(text);
  if (key.asymmetricKeyType !== 'ed25519')
    throw new Error(`expected an Ed25519 key, got ${key.asymmetricKeyType}`);
  return key;
}

const OPENSSH_MAGIC = 'openssh-key-v1\0';

/** OpenSSH, PROTOCOL.key: Node reads every format but this one, which is what `ssh-keygen` writes. */
function openSshPrivateKey(text: string): KeyObject {
  const base64 = /-----BEGIN OPENSSH PRIVATE KEY-----([\s\S]*?)-----END/.exec(text)?.[1] ?? '';
  const reader = new SshReader(Buffer.from(base64, 'base64'));
  if (reader.take(OPENSSH_MAGIC.length).toString('latin1') !== OPENSSH_MAGIC)
    throw new Error('not an OpenSSH key');
  if (reader.string().toString() !== 'none')
    throw new Error('the key is protected by a passphrase; remove it');
  reader.string();
  reader.string();
  if (reader.uint32() !== 1) throw new Error('expected one key in the file');
  reader.string();
  const secret = new SshReader(reader.string());
  if (secret.uint32() !== secret.uint32()) throw new Error('the check numbers of the key differ');
  const type = secret.string().toString();
  if (type !== TYPE) throw new Error(`expected a key of type ${TYPE}, got ${type}`);
  const x = secret.string();
  const seed = secret.string().subarray(0, 32);
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: x.toString('base64url'), d: seed.toString('base64url') };
  return createPrivateKey({ key: jwk, format: 'jwk' });
}
