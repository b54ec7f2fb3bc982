import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { LocalError } from './local-error.ts';

/**
 * Takes the lock file, so that two starts never share a folder. A lock whose process is gone counts for nothing, and
 * the process's start time tells it from a stranger that got the same number later.
 *
 * @returns gives the lock back.
 */
export function takeInstanceLock(path: string): Disposable {
  const taken = tryTake(path);
  if ('holder' in taken) {
    const { holder } = taken;
    throw new LocalError(
      `Sluice already runs on this folder (process ${holder}, lock ${path}). Use it, or stop it with Ctrl-C or kill ${holder}.`,
    );
  }
  if ('isLost' in taken) throw new LocalError(`Another start took ${path} a moment ago. Use that one.`);
  return taken;
}

/** The lock, or who has it, or that another start was quicker. */
function tryTake(path: string): Disposable | { holder: number } | { isLost: true } {
  const content = `${process.pid} ${startTime(process.pid)}\n`;
  const mine = `${path}.${process.pid}`;
  writeFileSync(mine, content, { mode: 0o600 });
  try {
    if (tryLink(mine, path)) return asDisposable(path, content);
    const found = contentOf(path);
    const holder = found === undefined ? undefined : holderOf(found);
    if (holder !== undefined) return { holder };
    // Undefined: it was given back just now.
    const isTaken = found === undefined ? tryLink(mine, path) : replace(path, found, mine);
    return isTaken ? asDisposable(path, content) : { isLost: true };
  } finally {
    rmSync(mine, { force: true });
  }
}

/**
 * Puts `mine` in the place of a lock that nobody holds. Of all that found the same one, whoever has the lock that is
 * named after it may; to remove it and link another would remove that of a start that was quicker.
 */
function replace(path: string, found: string, mine: string): boolean {
  const heir = tryTake(heirOf(path, found));
  if (!(Symbol.dispose in heir)) return false;
  using _heir = heir;
  if (contentOf(path) !== found) return false;
  renameSync(mine, path);
  return true;
}

/** The lock that lets replace one of this content. */
export function heirOf(path: string, content: string): string {
  return `${path}.${createHash('sha256').update(content).digest('hex').slice(0, 16)}`;
}

/** Leaves the lock of a successor, who took this process for gone, where it is. */
function asDisposable(path: string, content: string): Disposable {
  return {
    [Symbol.dispose]: () => {
      if (contentOf(path) === content) rmSync(path, { force: true });
    },
  };
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

/** Undefined: there is none. */
function contentOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

function holderOf(content: string): number | undefined {
  const [pid, ...time] = content.trim().split(' ');
  const holder = Number(pid);
  try {
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
