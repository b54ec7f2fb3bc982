import { spawn } from 'node:child_process';
import type { Writable } from 'node:stream';
import { killProcessGroup } from './kill-process-group.ts';
import { readShortText } from './read-short-text.ts';

export interface GitCommand {
  /** Arguments after `git`; never a credential, since any process of the machine can read them. */
  args: readonly string[];
  /** Repository to work on. */
  gitDir?: string;
  /** Added to the fixed environment; for what the command line must not hold. */
  env?: Readonly<Record<string, string>>;
  /** Standard input. */
  input?: string | Uint8Array;
  /** The command is killed after this; by default two minutes. */
  timeoutMs?: number;
  signal?: AbortSignal;
  /** More output than this is an error; by default 64 MiB. */
  outputBytesMax?: number;
  /** How bytes of output become text; `latin1` keeps each. By default `utf8`. */
  encoding?: 'utf8' | 'latin1';
}

/** A git command that failed. */
export class GitError extends Error {
  /** Null when it was killed. */
  readonly exitCode: number | null;
  /** What git said, its first 8 KiB. */
  readonly stderr: string;
  /** Standard output, its first 8 KiB. */
  readonly output: string;
  readonly isTimeout: boolean;
  /** It wrote more than it was allowed to. */
  readonly isTooLong: boolean;

  constructor(
    command: string,
    how: Pick<GitError, 'exitCode' | 'stderr' | 'output' | 'isTimeout' | 'isTooLong'> & { what: string },
  ) {
    super(`git ${command} ${how.what}${how.stderr === '' ? '' : `: ${how.stderr.trim()}`}`);
    this.name = 'GitError';
    this.exitCode = how.exitCode;
    this.stderr = how.stderr;
    this.output = how.output;
    this.isTimeout = how.isTimeout;
    this.isTooLong = how.isTooLong;
  }
}

/**
 * Nothing of the caller's environment, of the machine's or the user's configuration, no prompts, hooks, replacement
 * objects or helper programs: a command means the same on every machine.
 */
const ENVIRONMENT = {
  LC_ALL: 'C',
  HOME: '/nonexistent',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_ATTR_NOSYSTEM: '1',
  GIT_TERMINAL_PROMPT: '0',
  GIT_NO_REPLACE_OBJECTS: '1',
  GIT_ADVICE: '0',
};

const CONFIGURATION = [
  'core.hooksPath=/dev/null',
  'core.fsmonitor=false',
  'core.protectHFS=true',
  'core.protectNTFS=true',
  'credential.helper=',
  // Fetched packs stay packs.
  'fetch.unpackLimit=1',
  'gc.auto=0',
  'maintenance.auto=false',
  'protocol.ext.allow=never',
].flatMap((setting) => ['-c', setting]);

/** Runs git and returns its standard output as text. Rejects with a {@link GitError}, or with the signal's reason. */
export async function runGit(command: GitCommand): Promise<string> {
  const {
    args,
    gitDir,
    env,
    input,
    timeoutMs = 120_000,
    signal,
    outputBytesMax = 64 * 1024 ** 2,
    encoding = 'utf8',
  } = command;
  signal?.throwIfAborted();
  const child = spawn('git', [...CONFIGURATION, ...args], {
    cwd: '/',
    env: {
      PATH: process.env['PATH'],
      ...ENVIRONMENT,
      ...(gitDir === undefined ? {} : { GIT_DIR: gitDir }),
      ...env,
    },
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
  });
  let stopped: 'ran too long' | 'wrote too much' | undefined;
  const kill = (): void => killProcessGroup(child.pid);
  const stop = (why: typeof stopped): void => {
    stopped ??= why;
    kill();
  };
  const timer = setTimeout(() => stop('ran too long'), timeoutMs);
  signal?.addEventListener('abort', kill, { once: true });
  try {
    const output: Buffer[] = [];
    let bytes = 0;
    child.stdout.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > outputBytesMax) stop('wrote too much');
      else output.push(chunk);
    });
    const [errors, ended] = [readShortText(child.stderr), exit(child)];
    send(child.stdin, input);
    const exitCode = await ended;
    signal?.throwIfAborted();
    const whole = Buffer.concat(output);
    if (exitCode === 0 && stopped === undefined) return whole.toString(encoding);
    const what = stopped ?? (exitCode === null ? 'was killed' : `ended with ${exitCode}`);
    throw new GitError(args[0] ?? '', {
      exitCode,
      stderr: await errors(),
      output: whole.toString('utf8', 0, 8_192),
      isTimeout: stopped === 'ran too long',
      isTooLong: stopped === 'wrote too much',
      what,
    });
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', kill);
    kill();
  }
}

function exit(child: ReturnType<typeof spawn>): Promise<number | null> {
  const ended = Promise.withResolvers<number | null>();
  child.once('error', ended.reject);
  child.once('close', ended.resolve);
  return ended.promise;
}

function send(pipe: Writable, input: GitCommand['input']): void {
  // git may end before it has read everything; its exit code says whether that matters.
  pipe.on('error', () => {});
  pipe.end(input);
}
