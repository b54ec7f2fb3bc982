import { spawn, type ChildProcess } from 'node:child_process';
import type { Duplex, Readable, Writable } from 'node:stream';
import { unavailable } from '../http-error.ts';

/** A git process that has started. */
export interface GitProcess {
  pid: number;
  stdin: Writable;
  stdout: Readable;
  /** What it wrote to standard error, the last few kilobytes. */
  errors: () => string;
  /** Pipes 3, 4, …, as many as were asked for. */
  pipes: Duplex[];
  /** Its exit code, or null if a signal ended it. Never rejects. */
  exited: Promise<number | null>;
  /** Ends it together with everything it started; TERM lets it remove its quarantine. */
  end: (signal: 'SIGTERM' | 'SIGKILL') => void;
}

export interface StartGitOptions {
  args: readonly string[];
  env: Record<string, string>;
  /** Extra pipes, as file descriptors 3 and up, which its hooks inherit. */
  pipes?: number;
  /** Most memory of each process: what it allocates, not the files that it maps. */
  memoryBytesMax?: number;
  /** Lets every other process of the machine go first. */
  isPatient?: boolean;
}

const ERROR_BYTES_MAX = 8 * 1024;

/**
 * Limits itself, and with it what it starts, and becomes git. Where the system allows less already, that stays. Not the
 * address space: a repository that is larger than the limit is mapped, and costs nothing.
 */
const WITHIN = 'ulimit -d "$0" 2>/dev/null; exec "$@"';
const PATIENTLY = ['nice', '-n', '19'] as const;

/**
 * Starts git in a process group of its own. Rejects with a 503 if the system has no room for another process or
 * file: nothing has happened then.
 */
export async function startGit({
  args,
  env,
  pipes = 0,
  memoryBytesMax,
  isPatient = false,
}: StartGitOptions): Promise<GitProcess> {
  const limited =
    memoryBytesMax === undefined ? [] : ['sh', '-c', WITHIN, String(Math.floor(memoryBytesMax / 1024))];
  const [command, ...argv] = [...limited, ...(isPatient ? PATIENTLY : []), 'git', ...args];
  let child: ChildProcess;
  try {
    child = spawn(command!, argv, {
      env,
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe', ...Array.from({ length: pipes }, () => 'pipe' as const)],
    });
  } catch (error) {
    throw unavailable('git could not be started', error);
  }
  const exited = new Promise<number | null>((resolve) => child.once('close', (code) => resolve(code)));
  await new Promise<void>((resolve, reject) => {
    child.once('spawn', resolve);
    child.on('error', (error) => reject(unavailable('git could not be started', error)));
  });
  const extra = child.stdio.slice(3) as unknown as Duplex[];
  // A reader or writer that is gone is seen by its process's exit; without a listener it would end this process.
  for (const stream of [child.stdin!, child.stdout!, child.stderr!, ...extra]) stream.on('error', () => {});
  let errors: Buffer = Buffer.alloc(0);
  child.stderr!.on('data', (chunk: Buffer) => {
    errors = Buffer.concat([errors, chunk]).subarray(-ERROR_BYTES_MAX);
  });
  return {
    pid: child.pid!,
    stdin: child.stdin!,
    stdout: child.stdout!,
    errors: () => errors.toString('utf8'),
    pipes: extra,
    exited,
    end: (signal) => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      try {
        process.kill(-child.pid!, signal);
      } catch {
        // It has just ended.
      }
    },
  };
}
