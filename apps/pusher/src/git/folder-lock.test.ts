import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { useTempFolder } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { heirOf, tryWithLockFile, withLockFile } from './folder-lock.ts';

const folder = useTempFolder();

test('one holds it at a time, also within this process, and it is given back after a failure', async () => {
  const path = join(folder.path, 'lock');
  const began = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  const log: string[] = [];
  const first = withLockFile(path, async () => {
    log.push('first begins');
    began.resolve();
    await gate.promise;
    log.push('first ends');
    throw new Error('first failed');
  });
  await began.promise;
  const second = withLockFile(path, async () => void log.push('second'));
  setImmediate(() => gate.resolve());
  await expect(first).rejects.toThrow('first failed');
  await second;
  expect(log).toEqual(['first begins', 'first ends', 'second']);
  expect(existsSync(path)).toBe(false);
});

test('of many that wait in one process, each has it alone', async () => {
  const path = join(folder.path, 'lock');
  let inside = 0;
  let most = 0;
  const enter = async (): Promise<void> =>
    await withLockFile(path, async () => {
      inside += 1;
      most = Math.max(most, inside);
      await readFile(path);
      inside -= 1;
    });
  for (let round = 0; round < 5; round += 1) await Promise.all(Array.from({ length: 40 }, enter));
  expect(most).toBe(1);
});

test('who was taken for dead takes no lock away from its successor', async () => {
  const path = join(folder.path, 'lock');
  const slow = await tryWithLockFile(path, 60_000, async () => {
    const hourAgo = new Date(Date.now() - 3_600_000);
    utimesSync(path, hourAgo, hourAgo);
    const began = Promise.withResolvers<void>();
    const gate = Promise.withResolvers<void>();
    const successor = tryWithLockFile(path, 60_000, async () => {
      began.resolve();
      await gate.promise;
      return readFileSync(path, 'utf8');
    });
    await began.promise;
    return { successor, gate };
  });
  expect(existsSync(path)).toBe(true);
  slow!.result.gate.resolve();
  expect((await slow!.result.successor)?.result).toContain(`${process.pid} `);
  expect(existsSync(path)).toBe(false);
});

test.each([
  ['a process that is gone', `4194305 x ${hostname()}\n`],
  ['a former process with the pid of this one', `${process.pid} x ${hostname()}\n`],
])('a lock of %s is taken over at once', async (_, text) => {
  const path = join(folder.path, 'lock');
  writeFileSync(path, text);
  expect(await withLockFile(path, () => Promise.resolve(7))).toBe(7);
});

test('who does not wait for a lock is told that it is held, and how old a lock may become is its own', async () => {
  const path = join(folder.path, 'lock');
  const taken = await tryWithLockFile(path, 60_000, async () => {
    expect(await tryWithLockFile(path, 60_000, () => Promise.resolve('second'))).toBeNull();
    const hourAgo = new Date(Date.now() - 3_600_000);
    utimesSync(path, hourAgo, hourAgo);
    expect(await tryWithLockFile(path, 7_200_000, () => Promise.resolve('second'))).toBeNull();
    return 'first';
  });
  expect(taken).toEqual({ result: 'first' });
  expect(existsSync(path)).toBe(false);
});

test('of those that find a lock nobody holds, only the one with the lock to do so takes its place', async () => {
  const path = join(folder.path, 'lock');
  const enter = () => tryWithLockFile(path, 60_000, () => Promise.resolve('in'));
  const gone = spawn('true');
  await once(gone, 'exit');
  const left = (pid: number): string => `${pid} left ${hostname()}\n`;
  const living = spawn('sleep', ['600']);
  try {
    writeFileSync(path, left(gone.pid!));
    writeFileSync(heirOf(path), left(living.pid!));
    expect(await enter()).toBeNull();
    expect(readFileSync(path, 'utf8')).toBe(left(gone.pid!));
  } finally {
    living.kill();
    await once(living, 'exit');
  }
  expect(await enter()).toEqual({ result: 'in' });
  expect([path, heirOf(path)].filter(existsSync)).toEqual([]);
});

test('a lock that its owner shared with a process is held until that one is gone as well', async () => {
  const path = join(folder.path, 'lock');
  const child = spawn('sleep', ['600'], { stdio: 'ignore' });
  const ended = once(child, 'exit');
  writeFileSync(path, `4194305 x ${hostname()}\n4194304\n${child.pid}\n`);
  expect(await tryWithLockFile(path, 60_000, () => Promise.resolve('second'))).toBeNull();
  child.kill('SIGKILL');
  await ended;
  const taken = await tryWithLockFile(path, 60_000, (share) => {
    share(7);
    return readFile(path, 'utf8');
  });
  expect(taken?.result).toMatch(/^\d+ \S+ \S+\n7\n$/);
  expect(existsSync(path)).toBe(false);
});
