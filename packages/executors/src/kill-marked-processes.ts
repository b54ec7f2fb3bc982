import { readdirSync, readFileSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';

/** Name of the variable that marks every process of a run. */
export const RUN_MARK = 'SLUICE_RUN';

/** Rounds in a row that have to find nothing. */
const QUIET_ROUNDS = 2;
const ROUNDS_MAX = 200;
/** Looks in a row: a tenth of a millisecond each on a slow machine, and there may be thousands of processes. */
const LOOKS_MAX = 50;

/**
 * Kills the processes that were started with the given mark in their environment, wherever they moved themselves:
 * without a pid namespace a command leaves its process group by calling setsid. Does nothing where there is no `/proc`.
 *
 * A process that forks and exits every few milliseconds is gone before all others are looked at. So each is looked at
 * once, and after the first round the few that are new come first, at once: that is shorter than such a life.
 *
 * @returns how many were killed.
 */
export async function killMarkedProcesses(mark: string): Promise<number> {
  const wanted = Buffer.from(`${RUN_MARK}=${mark}\0`);
  const seen = new Set<string>();
  const settled = new Set<string>();
  let killed = 0;
  const look = (pid: string): 'quiet' | 'busy' => {
    const isNew = !seen.has(pid);
    seen.add(pid);
    const environment = environmentOf(pid);
    // Gone, or about to become another program, unless it is the kernel's or of another user, as others are each time.
    if (environment.length === 0) return isNew ? 'busy' : 'quiet';
    settled.add(pid);
    if (!environment.includes(wanted)) return 'quiet';
    if (kill(Number(pid))) killed += 1;
    return 'busy';
  };
  for (let round = 0, quiet = 0; round < ROUNDS_MAX && quiet < QUIET_ROUNDS; round += 1) {
    const unsettled = processIds().filter((pid) => !settled.has(pid));
    const newFirst = [false, true].flatMap((isKnown) => unsettled.filter((pid) => seen.has(pid) === isKnown));
    const looks: ('quiet' | 'busy')[] = [];
    for (const pid of newFirst) {
      if (looks.push(look(pid)) % LOOKS_MAX === 0) await nextTurn();
    }
    quiet = looks.includes('busy') ? 0 : quiet + 1;
    await nextTurn();
  }
  return killed;
}

function processIds(): string[] {
  try {
    return readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  } catch {
    return [];
  }
}

function environmentOf(pid: string): Buffer {
  try {
    return readFileSync(`/proc/${pid}/environ`);
  } catch {
    return Buffer.alloc(0);
  }
}

/** False: it ended by itself in between. */
function kill(pid: number): boolean {
  try {
    process.kill(pid, 'SIGKILL');
    return true;
  } catch {
    return false;
  }
}
