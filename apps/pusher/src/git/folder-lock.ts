import { randomUUID } from 'node:crypto';
import { appendFileSync, readFileSync, rmSync, statSync, unlinkSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { unavailable } from '../http-error.ts';

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
 * else holds it. A process that the task has `shared` it with holds it on when this one dies.
 */
export async function tryWithLockFile<T>(
  path: string,
  staleMs: number,
  task: (share: (pid: number) => void) => Promise<T>,
): Promise<{ result: T } | null> {
  const id = randomUUID();
  held.add(id);
  try {
    if (!(await tryTake(path, id, staleMs))) return null;
    try {
      return { result: await task((pid) => appendFileSync(path, `${pid}\n`)) };
    } finally {
      removeOwn(path, id);
    }
  } finally {
    held.delete(id);
  }
}

async function tryTake(path: string, id: string, staleMs: number): Promise<boolean> {
  if (await tryCreate(path, id)) return true;
  return isStale(path, staleMs) && (await succeed(path, id, staleMs));
}

/**
 * Takes the place of a lock that nobody holds. Whoever does so has the lock to do it, and looks again: without that, of
 * two that found the same lock the slower would remove the lock of the quicker.
 */
async function succeed(path: string, id: string, staleMs: number): Promise<boolean> {
  const heir = heirOf(path);
  if (isStale(heir, STALE_MS)) rmSync(heir, { force: true });
  if (!(await tryCreate(heir, id))) return false;
  try {
    if (!isStale(path, staleMs)) return false;
    rmSync(path, { force: true });
    return await tryCreate(path, id);
  } finally {
    removeOwn(heir, id);
  }
}

/** The lock that lets remove this one. */
export function heirOf(path: string): string {
  return `${path}.heir`;
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

/** Whether nobody holds it; not if there is none. */
function isStale(path: string, staleMs: number): boolean {
  let owner;
  try {
    if (Date.now() - statSync(path).mtimeMs > staleMs) return true;
    owner = ownerOf(path);
  } catch {
    return false;
  }
  if (owner === null || owner.host !== hostname()) return false;
  const isHeld = owner.pid === process.pid ? held.has(owner.id) : isAlive(owner.pid);
  return !isHeld && !owner.sharedWith.some(isAlive);
}

/** Leaves the lock of a successor, who took its owner for dead, where it is. */
function removeOwn(path: string, id: string): void {
  try {
    if (ownerOf(path)?.id === id) unlinkSync(path);
  } catch {
    // It is gone.
  }
}

interface Owner {
  pid: number;
  id: string;
  host: string;
  sharedWith: number[];
}

function ownerOf(path: string): Owner | null {
  const [, pid, id, host, shared = ''] =
    /^(\d+) (\S+) (.+)\n((?:\d+\n)*)$/.exec(readFileSync(path, 'utf8')) ?? [];
  if (id === undefined || host === undefined) return null;
  return { pid: Number(pid), id, host, sharedWith: (shared.match(/\d+/g) ?? []).map(Number) };
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !isZombie(pid);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** It has ended, and nobody has waited for it: in a container, perhaps nobody ever does. */
function isZombie(pid: number): boolean {
  try {
    return /^\d+ \(.*\) Z/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}
