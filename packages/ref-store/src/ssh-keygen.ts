import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Long for what takes milliseconds; the machine may be busy. */
const VERIFY_MS = 10_000;

export interface SignedText {
  signed: Uint8Array;
  /** Armoured SSH signature. */
  signature: string;
}

/**
 * Whether `key` (`ssh-ed25519 AAAA…`, any type) made the signature over the text, in git's namespace: `ssh-keygen`
 * says so, within a time limit. Throws if it cannot be started.
 */
export async function sshKeygenVerifies({ signed, signature }: SignedText, key: string): Promise<boolean> {
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

async function run(args: readonly string[], input: Uint8Array): Promise<boolean> {
  const child = spawn('ssh-keygen', args, {
    env: { PATH: process.env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C' },
    stdio: ['pipe', 'ignore', 'ignore'],
    timeout: VERIFY_MS,
    killSignal: 'SIGKILL',
  });
  const exited = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  // It may have ended before it read everything; its exit code says the rest.
  child.stdin.on('error', () => {});
  child.stdin.end(input);
  return (await exited) === 0;
}
