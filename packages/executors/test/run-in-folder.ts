import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  DEFAULT_LIMITS,
  type EffectExecutor,
  type EffectLimits,
  type EffectSpec,
  type EffectStatus,
} from '../src/index.ts';

export interface TestRun extends EffectStatus {
  output: Buffer;
  text: string;
}

interface TestSpec extends Partial<Omit<EffectSpec, 'limits' | 'folder'>> {
  limits?: Partial<EffectLimits>;
  signal?: AbortSignal;
  onOutput?: (bytes: Uint8Array) => Promise<void>;
}

/** Runs shell text or an argument list in a fresh folder that is removed afterwards. */
export async function runInFolder(
  executor: EffectExecutor,
  command: string | readonly string[],
  spec: TestSpec = {},
): Promise<TestRun> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-run-'));
  const chunks: Uint8Array[] = [];
  const { signal = new AbortController().signal, onOutput, limits, ...rest } = spec;
  try {
    await mkdir(join(folder, 'work'));
    const status = await executor.run(
      {
        command: typeof command === 'string' ? { run: command } : { argv: command },
        env: {},
        timeoutMs: 60_000,
        hasNetwork: false,
        ...rest,
        folder,
        limits: { ...DEFAULT_LIMITS, ...limits },
      },
      {
        signal,
        onOutput: async (bytes) => {
          chunks.push(bytes);
          await onOutput?.(bytes);
        },
      },
    );
    const output = Buffer.concat(chunks);
    return { ...status, output, text: output.toString() };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** How many live processes of this machine have the text in their command line. */
export async function processesWith(text: string): Promise<number> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const lines = await Promise.all(
    pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')),
  );
  return lines.filter((line) => line.includes(text)).length;
}
