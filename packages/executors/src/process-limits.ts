import { readFileSync } from 'node:fs';
import type { EffectLimits } from './effect-executor.ts';

/** Where util-linux puts it; inside a sandbox the path is the same. */
export const PRLIMIT = '/usr/bin/prlimit';

/**
 * Arguments that make {@link PRLIMIT} run a command within limits. Each is at most the hard limit this process has
 * itself, since raising one is refused and would look like a failure of the command.
 */
export function limitArguments(limits: EffectLimits, options: { hasProcessLimit: boolean }): string[] {
  const hard = hardLimits();
  const within = (resource: string, wanted: number): string =>
    String(Math.min(wanted, hard.get(resource) ?? wanted));
  return [
    '--core=0',
    // Private writable memory. A limit on address space would refuse runtimes that reserve much and use little.
    `--data=${within('Max data size', limits.memoryBytesMax)}`,
    `--fsize=${within('Max file size', limits.fileBytesMax)}`,
    ...(options.hasProcessLimit ? [`--nproc=${within('Max processes', limits.processesMax)}`] : []),
    '--',
  ];
}

function hardLimits(): Map<string, number> {
  const limits = new Map<string, number>();
  for (const line of readProcLimits().split('\n')) {
    const match = /^(Max [a-z ]+?)\s{2,}\S+\s+(\d+)/.exec(line);
    if (match !== null) limits.set(match[1]!, Number(match[2]));
  }
  return limits;
}

function readProcLimits(): string {
  try {
    return readFileSync('/proc/self/limits', 'utf8');
  } catch {
    return '';
  }
}
