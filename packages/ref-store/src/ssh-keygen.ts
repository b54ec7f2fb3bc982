import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SluiceError } from '@sluice/db';

/** Long for what takes milliseconds; the machine may be busy. */
const VERIFY_MS = 10_000;
const GOOD = 0;
const BAD = 255;

export interface SignedText {
  signed: Uint8Array;
  /** Armoured SSH signature. */
  signature: string;
}

/**
 * Whether `key` (`ssh-ed25519 AAAA…`, any type) made the signature over the text, in git's namespace: `ssh-keygen`
 * says so. Throws `ssh_keygen_unusable` if it says neither yes nor no within `limitMs`: that is no judgement.
 */
export async function sshKeygenVerifies(
  { signed, signature }: SignedText,
  key: string,
  { limitMs = VERIFY_MS }: { limitMs?: number } = {},
): Promise<boolean> {
  try {
    const temporary = await mkdtemp(join(tmpdir(), 'sluice-verify-'));
    try {
      const signers = join(temporary, 'signers');
      const file = join(temporary, 'signature');
      await writeFile(signers, `signer namespaces="git" ${key}\n`);
      await writeFile(file, signature);
      return await run(['-Y', 'verify', '-n', 'git', '-I', 'signer', '-f', signers, '-s', file], {
        input: signed,
        limitMs,
      });
    } finally {
      await rm(temporary, { recursive: true, force: true });
    }
  } catch (cause) {
    if (cause instanceof SluiceError) throw cause;
    throw unusable(cause instanceof Error ? cause.message : String(cause), cause);
  }
}

async function run(
  args: readonly string[],
  { input, limitMs }: { input: Uint8Array; limitMs: number },
): Promise<boolean> {
  const child = spawn('ssh-keygen', args, {
    env: { PATH: process.env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C' },
    stdio: ['pipe', 'ignore', 'ignore'],
    timeout: limitMs,
    killSignal: 'SIGKILL',
  });
  const exited = new Promise<{ code: number | null; signal: string | null }>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => resolve({ code, signal }));
  });
  // It may have ended before it read everything; its exit code says the rest.
  child.stdin.on('error', () => {});
  child.stdin.end(input);
  const { code, signal } = await exited;
  if (code === GOOD || code === BAD) return code === GOOD;
  if (child.killed) throw unusable(`no answer within ${limitMs} ms`);
  throw unusable(code === null ? `its end by ${signal}` : `exit code ${code}`);
}

function unusable(got: string, cause?: unknown): SluiceError {
  return new SluiceError(
    'ssh_keygen_unusable',
    `ssh-keygen: expected it to say whether a signature is good, got ${got}.`,
    { cause },
  );
}
