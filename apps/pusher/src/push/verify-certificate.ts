import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { publicKeyOf } from '@sluice/effect-spec';
import { unavailable } from '../http/http-error.ts';
import type { Certificate } from '../wire/certificate.ts';

/** Long for what takes milliseconds; the machine may be busy. */
const VERIFY_MS = 10_000;

/** The public key that a signature names, before anything is proven; undefined if it names none. */
export function keyOfSignature(signature: string): string | undefined {
  const blob = Buffer.from(signature.split('\n').slice(1).join('').replace(/-.*$/, ''), 'base64');
  // PROTOCOL.sshsig: magic, version, then the key as a string.
  if (blob.length < 14 || blob.toString('latin1', 0, 6) !== 'SSHSIG') return undefined;
  const end = 14 + blob.readUInt32BE(10);
  return end > blob.length ? undefined : publicKeyOf(blob.subarray(14, end));
}

/**
 * What is wrong with a certificate for a repository, the signature left aside. A certificate says where it was pushed
 * to; one that was made for another repository, or by another server's leave, must not count here.
 */
export function judgeCertificate(
  { pushee, pushOptions }: Certificate,
  push: { repoId: string; pushOptions: readonly string[] },
): string | null {
  const path = URL.parse(pushee)?.pathname.replace(/\/$/, '');
  if (path !== `/${push.repoId}.git` && path !== `/_sha256/${push.repoId}.git`) {
    return 'the push certificate is for another repository';
  }
  const isSame =
    pushOptions.length === push.pushOptions.length &&
    pushOptions.every((option, index) => option === push.pushOptions[index]);
  return isSame ? null : 'the push options are not those that were signed';
}

/** Whether `key` made the certificate's signature, in git's namespace: `ssh-keygen` says so, within a time limit. */
export async function isSignedBy({ signed, signature }: Certificate, key: string): Promise<boolean> {
  const temporary = await mkdtemp(join(tmpdir(), 'sluice-verify-'));
  try {
    const signers = join(temporary, 'signers');
    const file = join(temporary, 'signature');
    await writeFile(signers, `signer namespaces="git" ${key}\n`);
    await writeFile(file, signature);
    return await run(['-Y', 'verify', '-n', 'git', '-I', 'signer', '-f', signers, '-s', file], signed);
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
}

async function run(args: readonly string[], input: Buffer): Promise<boolean> {
  const child = spawn('ssh-keygen', args, {
    env: { PATH: process.env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C' },
    stdio: ['pipe', 'ignore', 'ignore'],
    timeout: VERIFY_MS,
    killSignal: 'SIGKILL',
  });
  const exited = new Promise<number | null>((resolve, reject) => {
    child.once('error', (error) => reject(unavailable('ssh-keygen could not be started', error)));
    child.once('close', resolve);
  });
  // It may have ended before it read everything; its exit code says the rest.
  child.stdin.on('error', () => {});
  child.stdin.end(input);
  return (await exited) === 0;
}
