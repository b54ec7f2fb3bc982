import { readdir, readFile } from 'node:fs/promises';

/** Name of the variable that marks every process of a run. */
export const RUN_MARK = 'SLUICE_RUN';

/** A process may fork while it is looked for; each round finds the children of the one before. */
const ROUNDS_MAX = 50;

/**
 * Kills the processes that were started with the given mark in their environment, wherever they moved themselves:
 * without a pid namespace a command leaves its process group by calling setsid. Does nothing where there is no `/proc`.
 *
 * @returns how many were killed.
 */
export async function killMarkedProcesses(mark: string): Promise<number> {
  const killed = new Set<number>();
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    const alive = await markedProcesses(mark);
    if (alive.length === 0) break;
    for (const pid of alive) {
      killed.add(pid);
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // It ended by itself in between.
      }
    }
  }
  return killed.size;
}

async function markedProcesses(mark: string): Promise<number[]> {
  const wanted = Buffer.from(`${RUN_MARK}=${mark}\0`);
  const pids = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name));
  const marked = await Promise.all(
    pids.map(async (pid) => {
      // A killed process that its parent has not yet reaped reads as empty.
      const environment = await readFile(`/proc/${pid}/environ`).catch(() => Buffer.alloc(0));
      return environment.includes(wanted) ? Number(pid) : undefined;
    }),
  );
  return marked.filter((pid) => pid !== undefined);
}
