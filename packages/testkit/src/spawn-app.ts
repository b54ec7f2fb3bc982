import { spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';

export interface SpawnAppOptions {
  /** The program: a `.ts` file that Node runs. */
  file: string;
  args?: readonly string[];
  /** All it gets besides PATH, HOME and TMPDIR. */
  env: Record<string, string>;
  cwd?: string;
}

export interface SpawnedApp extends AsyncDisposable {
  pid: number;
  /** Everything it wrote so far, both streams, in order of arrival. */
  output(): string;
  /** Standard output alone. */
  stdout(): string;
  /** Waits until the output matches; fails with the output when the program ends first or the bound passes. */
  waitForOutput(pattern: RegExp, withinMs?: number): Promise<RegExpExecArray>;
  /** Waits until a GET of the URL answers 200. */
  waitForOk(url: string, withinMs?: number): Promise<void>;
  signal(signal: NodeJS.Signals): void;
  /** Waits for its end; fails with the output when the bound passes. */
  exited(withinMs?: number): Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
}

const BOUND_MS = 30_000;
const POLL_MS = 20;

/** Starts a program of ours in a process group of its own; disposing kills the whole group. */
export function spawnApp(options: SpawnAppOptions): SpawnedApp {
  const child = spawn(process.execPath, [options.file, ...(options.args ?? [])], {
    cwd: options.cwd,
    detached: true,
    env: { ...inherited(), ...options.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const pid = child.pid;
  if (pid === undefined) throw new Error(`${options.file} could not be started`);
  let both = '';
  let stdout = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    both += text;
    stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    both += text;
  });
  let ended: { code: number | null; signal: NodeJS.Signals | null } | undefined;
  const closed = new Promise<void>((resolve) =>
    child.on('close', (code, signal) => {
      ended = { code, signal };
      resolve();
    }),
  );

  async function until<T>(
    what: string,
    withinMs: number,
    look: () => Promise<T | undefined> | T | undefined,
  ): Promise<T> {
    const end = performance.now() + withinMs;
    for (;;) {
      const wasEnded = ended !== undefined;
      const found = await look();
      if (found !== undefined) return found;
      if (wasEnded) throw new Error(`${options.file} ended before ${what}:\n${both}`);
      if (performance.now() > end)
        throw new Error(`${options.file}: no ${what} within ${withinMs} ms:\n${both}`);
      await sleep(POLL_MS);
    }
  }
  return {
    pid,
    output: () => both,
    stdout: () => stdout,
    waitForOutput: (pattern, withinMs = BOUND_MS) =>
      until(String(pattern), withinMs, () => pattern.exec(both) ?? undefined),
    async waitForOk(url, withinMs = BOUND_MS) {
      await until(`200 from ${url}`, withinMs, async () => ((await isOk(url)) ? true : undefined));
    },
    signal: (signal) => void child.kill(signal),
    exited: (withinMs = BOUND_MS) => until('end', withinMs, () => ended),
    async [Symbol.asyncDispose]() {
      killGroup(pid);
      await closed;
    },
  };
}

async function isOk(url: string): Promise<boolean> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(5_000) });
    await response.arrayBuffer();
    return response.status === 200;
  } catch {
    return false;
  }
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // The group is gone already.
  }
}

function inherited(): Record<string, string> {
  const entries = ['PATH', 'HOME', 'TMPDIR'].map((name) => [name, process.env[name]] as const);
  return Object.fromEntries(entries.filter((entry): entry is [string, string] => entry[1] !== undefined));
}
