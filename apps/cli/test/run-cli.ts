import { run } from '../src/run.ts';
import type { Terminal } from '../src/terminal.ts';

export interface CliResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs one command line inside this process and keeps what it wrote. */
export async function runCli(
  args: readonly string[],
  options: {
    cwd?: string;
    env?: Terminal['env'];
    isTTY?: boolean;
    signal?: AbortSignal;
    onOutput?: (all: string) => void;
  } = {},
): Promise<CliResult> {
  const written = { stdout: '', stderr: '' };
  const output = (name: 'stdout' | 'stderr') => ({
    isTTY: options.isTTY ?? false,
    write: (chunk: string | Uint8Array) => {
      written[name] += Buffer.from(chunk).toString('utf8');
      options.onOutput?.(written[name]);
    },
  });
  const code = await run(args, {
    cwd: options.cwd ?? '/',
    env: options.env ?? {},
    stdout: output('stdout'),
    stderr: output('stderr'),
    signal: options.signal ?? new AbortController().signal,
  });
  return { code, ...written };
}
