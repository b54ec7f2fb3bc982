import { readdirSync, readFileSync } from 'node:fs';
import { until } from './until.ts';

/** Ids of all processes of this machine with the text on their command line: those of a sandbox show outside of it. */
export function processesWith(text: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => isRunning(pid, text));
}

/** Waits until none of the processes is left. */
export async function untilEnded(pids: readonly number[], text: string): Promise<void> {
  await until(`processes ${pids.join(', ')} have ended`, () => !pids.some((pid) => isRunning(pid, text)));
}

function isRunning(pid: number, text: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(text);
  } catch {
    return false;
  }
}
