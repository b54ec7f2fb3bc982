import { execFileSync } from 'node:child_process';
import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { LocalError } from './local-error.ts';

/**
 * Takes the lock file, so that two starts never share a folder. A lock whose process is gone counts for nothing, and
 * the process's start time tells it from a stranger that got the same number later.
 *
 * @returns gives the lock back.
 */
export function takeInstanceLock(path: string): Disposable {
  const mine = `${path}.${process.pid}`;
  writeFileSync(mine, `${process.pid} ${startTime(process.pid)}\n`, { mode: 0o600 });
  try {
    if (!tryLink(mine, path)) {
      const holder = holderOf(path);
      if (holder !== undefined) {
        throw new LocalError(
          `Sluice already runs on this folder (process ${holder}, lock ${path}). Use it, or stop it with Ctrl-C or kill ${holder}.`,
        );
      }
      rmSync(path, { force: true });
      if (!tryLink(mine, path))
        throw new LocalError(`Another start took ${path} a moment ago. Use that one.`);
    }
  } finally {
    rmSync(mine, { force: true });
  }
  return { [Symbol.dispose]: () => rmSync(path, { force: true }) };
}

function tryLink(from: string, to: string): boolean {
  try {
    // A link appears complete and at once, or not at all.
    linkSync(from, to);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

function holderOf(path: string): number | undefined {
  try {
    const [pid, ...time] = readFileSync(path, 'utf8').trim().split(' ');
    const holder = Number(pid);
    return Number.isInteger(holder) && startTime(holder) === time.join(' ') ? holder : undefined;
  } catch {
    return undefined;
  }
}

/** Throws when there is no such process. */
function startTime(pid: number): string {
  if (process.platform !== 'linux') {
    return execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], {
      encoding: 'utf8',
      timeout: 10_000,
    }).trim();
  }
  // Field 22, counted behind the command name, which may hold blanks and parentheses.
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? '';
}
