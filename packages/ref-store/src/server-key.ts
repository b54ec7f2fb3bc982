import {
  createHash,
  createPublicKey,
  generateKeyPairSync,
  randomUUID,
  sign,
  type KeyObject,
} from 'node:crypto';
import { link, mkdir, open, unlink } from 'node:fs/promises';
import { dirname } from 'node:path';
import { SluiceError } from '@sluice/db';
import { ed25519Blob, ed25519PrivateKey } from './ed25519-key.ts';
import { sshSign } from './ssh-signature.ts';

/** The key a server signs op records with. */
export interface ServerKey {
  /** `ssh-ed25519 AAAA…`, as in an allowed-signers file: `sluice@localhost <publicKey>`. */
  readonly publicKey: string;
  /** `SHA256:…`, as `ssh-keygen -l` prints it. */
  readonly fingerprint: string;
  /** An armoured SSH signature in git's namespace. */
  sign(message: Uint8Array): string;
}

/**
 * Loads the server's Ed25519 key, unencrypted, in PKCS8 PEM or OpenSSH format. If there is no file, makes a key and
 * writes it with mode 0600; of several processes that start at once, all get the same one.
 *
 * Throws `server_key_unusable` if other users of the machine can read the file, or if it holds something else.
 */
export async function loadServerKey(path: string): Promise<ServerKey> {
  const text = (await readKeyFile(path)) ?? (await createKeyFile(path));
  let key: KeyObject;
  try {
    key = ed25519PrivateKey(text);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw unusable(`expected an Ed25519 private key in ${path}, but: ${why}.`, {
      next: 'Correct or remove the file.',
      cause,
    });
  }
  const blob = ed25519Blob(createPublicKey(key));
  return {
    publicKey: `ssh-ed25519 ${blob.toString('base64')}`,
    fingerprint: `SHA256:${createHash('sha256').update(blob).digest('base64').replaceAll('=', '')}`,
    sign: (message) => sshSign(message, blob, (data) => sign(null, data, key)),
  };
}

async function readKeyFile(path: string): Promise<string | undefined> {
  try {
    await using file = await open(path, 'r');
    const { mode } = await file.stat();
    if ((mode & 0o077) !== 0) {
      const octal = (mode & 0o777).toString(8).padStart(4, '0');
      throw unusable(`expected ${path} to be readable by its owner only, got mode ${octal}.`, {
        next: `Run: chmod 600 ${path}`,
      });
    }
    return await file.readFile('utf8');
  } catch (error) {
    if (isFileError(error, 'ENOENT')) return undefined;
    if (error instanceof SluiceError) throw error;
    throw unusable(`cannot read ${path}: ${error instanceof Error ? error.message : String(error)}.`, {
      cause: error,
    });
  }
}

/** Written under another name and then linked, so that nobody ever sees half a key and the first writer wins. */
async function createKeyFile(path: string): Promise<string> {
  const { privateKey } = generateKeyPairSync('ed25519');
  const text = privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
  const temporary = `${path}.${randomUUID()}`;
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    try {
      await using file = await open(temporary, 'wx', 0o600);
      await file.writeFile(text);
      await file.sync();
      await link(temporary, path);
    } finally {
      await unlink(temporary).catch(() => undefined);
    }
    await using directory = await open(dirname(path), 'r');
    await directory.sync();
    return text;
  } catch (error) {
    const existing = isFileError(error, 'EEXIST') ? await readKeyFile(path) : undefined;
    if (existing !== undefined) return existing;
    throw unusable(`cannot create ${path}: ${error instanceof Error ? error.message : String(error)}.`, {
      cause: error,
    });
  }
}

function isFileError(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

function unusable(what: string, options: { next?: string; cause?: unknown }): SluiceError {
  return new SluiceError('server_key_unusable', `Server key: ${what}`, options);
}
