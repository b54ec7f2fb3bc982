import { readdirSync, readFileSync } from 'node:fs';

/** From Linux's <asm/param.h>, the same on every architecture that Node runs on. */
const TICKS_PER_SECOND = 100;

interface Process {
  pid: number;
  parent: number;
  seconds: number;
}

/**
 * Seconds of processor time, user and system, that a process and all below it have used, those that have ended and were
 * waited for included. Undefined where there is no `/proc`.
 */
export function processorSeconds(pid: number): number | undefined {
  const processes = readProcesses();
  if (processes === undefined) return undefined;
  const below = new Set([pid]);
  let found = 0;
  while (below.size > found) {
    found = below.size;
    for (const one of processes) if (below.has(one.parent)) below.add(one.pid);
  }
  return processes.filter((one) => below.has(one.pid)).reduce((sum, one) => sum + one.seconds, 0);
}

function readProcesses(): Process[] | undefined {
  try {
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .flatMap((name) => readProcess(Number(name)));
  } catch {
    return undefined;
  }
}

function readProcess(pid: number): Process[] {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name in parentheses may hold anything; proc(5) counts the fields from there.
    const fields = stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number);
    const ticks = fields.slice(11, 15).reduce((sum, field) => sum + field, 0);
    return [{ pid, parent: fields[1]!, seconds: ticks / TICKS_PER_SECOND }];
  } catch {
    return []; // It has just ended.
  }
}
