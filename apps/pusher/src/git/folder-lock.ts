import { randomUUID } from 'node:crypto';
import { open, readFile, stat, unlink } from 'node:fs/promises';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { unavailable } from '../http/http-error.ts';

const RETRY_MS = 20;
const WAIT_MS_MAX = 15_000;
/** What a lock protects takes far less; one this old belongs to a process that is gone. */
const STALE_MS = 60_000;

/** Ids of this process's locks. In a container a dead process's pid is often the one that its successor has. */
const held = new Set<string>();

/**
 * Runs `task` while holding a lock file, which other processes on the same folder respect. A lock that a dead process
 * of this host left behind, or one that is a minute old, is removed.
 */
export async function withLockFile<T>(path: string, task: () => Promise<T>): Promise<T> {
  const startedAt = performance.now();
  for (;;) {
    const done = await tryWithLockFile(path, STALE_MS, task);
    if (done !== null) return done.result;
    if (performance.now() - startedAt > WAIT_MS_MAX) throw unavailable('the repository is locked on disk');
    await delay(RETRY_MS);
  }
}

/**
 * The same for a task that takes up to `staleMs`, which is how old a lock may become. Does not wait: null if somebody
 * else holds it.
 */
export async function tryWithLockFile<T>(
  path: string,
  staleMs: number,
  task: () => Promise<T>,
): Promise<{ result: T } | null> {
  const id = randomUUID();
  held.add(id);
  try {
    if (!(await tryTake(path, id, staleMs))) return null;
    try {
      return { result: await task() };
    } finally {
      await unlink(path).catch(() => undefined);
    }
  } finally {
    held.delete(id);
  }
}

async function tryTake(path: string, id: string, staleMs: number): Promise<boolean> {
  if (await tryCreate(path, id)) return true;
  if (!(await isStale(path, staleMs))) return false;
  await unlink(path).catch(() => undefined);
  return await tryCreate(path, id);
}

async function tryCreate(path: string, id: string): Promise<boolean> {
  try {
    await using file = await open(path, 'wx');
    await file.writeFile(`${process.pid} ${id} ${hostname()}\n`);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

async function isStale(path: string, staleMs: number): Promise<boolean> {
  try {
    const [{ mtimeMs }, text] = await Promise.all([stat(path), readFile(path, 'utf8')]);
    if (Date.now() - mtimeMs > staleMs) return true;
    const owner = /^(\d+) (\S+) (.+)\n$/.exec(text);
    if (owner === null || owner[3] !== hostname()) return false;
    const pid = Number(owner[1]);
    return pid === process.pid ? !held.has(owner[2]!) : !isAlive(pid);
  } catch {
    return false;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
