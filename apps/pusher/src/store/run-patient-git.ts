import { gitEnvironment, type ConfigEntry } from '../git/git-environment.ts';
import { NOT_DELTIFIED } from '../git/serve-configuration.ts';
import { startGit } from '../git/start-git.ts';

export interface PatientGitOptions {
  folder: string;
  home: string;
  /** After `--git-dir <folder>`. */
  args: readonly string[];
  /** Standard input. */
  input?: string;
  /** Longest time it may take. */
  timeoutMs: number;
  /** Ends it. */
  signal: AbortSignal;
  /** Hears of its process, which outlives a pusher that is killed. */
  onStarted?: ((pid: number) => void) | undefined;
}

const OUTPUT_BYTES_MAX = 1024 * 1024;

/** For git processes that write objects without being asked to by anybody: durable, and on one processor. */
const CONFIG: readonly ConfigEntry[] = [
  ['core.fsync', 'all'],
  ['gc.auto', '0'],
  ['maintenance.auto', 'false'],
  NOT_DELTIFIED,
  ['pack.threads', '1'],
  ['pack.windowMemory', '256m'],
  ['repack.writeBitmaps', 'false'],
];

/** Runs git for upkeep, which gives way to everything else on the machine, and returns its output. Throws with git's words. */
export async function runPatientGit(options: PatientGitOptions): Promise<string> {
  const { folder, home, args, input = '', timeoutMs, signal, onStarted } = options;
  signal.throwIfAborted();
  const git = await startGit({
    args: ['--git-dir', folder, ...args],
    env: gitEnvironment({ home, config: [['safe.directory', folder], ...CONFIG] }),
    isPatient: true,
  });
  onStarted?.(git.pid);
  // TERM lets it remove what it has half written.
  const end = (): void => git.end('SIGTERM');
  const timer = setTimeout(end, timeoutMs);
  signal.addEventListener('abort', end);
  try {
    git.stdin.end(input);
    let output = '';
    for await (const part of git.stdout as AsyncIterable<Buffer>) {
      output += part.toString('latin1');
      if (output.length > OUTPUT_BYTES_MAX) end();
    }
    const code = await git.exited;
    signal.throwIfAborted();
    if (code === 0) return output;
    throw new Error(`git ${args[0]} ended with ${code ?? 'a signal'}: ${git.errors().trim()}`);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', end);
    git.end('SIGKILL');
  }
}
