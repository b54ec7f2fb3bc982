import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  constants,
  existsSync,
  linkSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { useTempFolder } from '@sluice/testkit';
import { expect, test, vi } from 'vitest';
import { heirOf, takeInstanceLock } from './instance-lock.ts';

const folder = useTempFolder();
const BOUND = { timeout: 20_000, interval: 20 };

test('one holder at a time; giving it back frees it', () => {
  const path = join(folder.path, 'lock');
  const lock = takeInstanceLock(path);
  expect(() => takeInstanceLock(path)).toThrow(`already runs on this folder (process ${process.pid}`);
  lock[Symbol.dispose]();
  expect(existsSync(path)).toBe(false);
  takeInstanceLock(path)[Symbol.dispose]();
});

test.each([
  ['a process that is gone', '4194304 1'],
  ['a stranger that got the same number', `${process.pid} 1`],
  ['a file that was cut off', ''],
])('a lock of %s counts for nothing', (_, content) => {
  const path = join(folder.path, 'lock');
  writeFileSync(path, content);
  using _lock = takeInstanceLock(path);
  expect(readFileSync(path, 'utf8')).toMatch(new RegExp(`^${process.pid} `));
  expect(readdirSync(folder.path)).toEqual(['lock']);
});

/** Takes the lock in a thread of its own, which may stand still, and says how that ended. */
function takeElsewhere(path: string): Promise<unknown> {
  const worker = new Worker(
    `const { parentPort, workerData } = require('node:worker_threads');
     import(workerData.module).then(({ takeInstanceLock }) => {
       try { takeInstanceLock(workerData.path); parentPort.postMessage('taken'); }
       catch (error) { parentPort.postMessage(error.message); }
     });`,
    {
      eval: true,
      workerData: { path, module: join(import.meta.dirname, 'instance-lock.ts') },
    },
  );
  return once(worker, 'message').then(([message]: unknown[]) => message);
}

/** A lock that says nothing to whoever reads it before it is told what. */
function writeSlowLock(path: string): { read: () => Promise<(content: string) => void> } {
  expect(spawnSync('mkfifo', [path]).status).toBe(0);
  const kept = `${path}-kept`;
  linkSync(path, kept);
  return {
    // Fails as long as nobody reads.
    read: () =>
      vi.waitFor(() => {
        const end = openSync(kept, constants.O_WRONLY | constants.O_NONBLOCK);
        return (content) => {
          writeSync(end, content);
          closeSync(end);
        };
      }, BOUND),
  };
}

const GONE = '4194304 1\n';

test('of two starts that find the lock of a process that is gone one has it', async () => {
  const path = join(folder.path, 'lock');
  const slow = writeSlowLock(path);
  const other = takeElsewhere(path);
  const answer = await slow.read();
  // The other looks at the old lock while this one takes it over.
  rmSync(path);
  using _lock = takeInstanceLock(path);
  answer(GONE);
  expect(await other).toContain('Another start took');
  expect(readFileSync(path, 'utf8')).toMatch(new RegExp(`^${process.pid} `));
});

test("a start that died while it took a lock over is in nobody's way", () => {
  const path = join(folder.path, 'lock');
  writeFileSync(path, GONE);
  writeFileSync(heirOf(path, GONE), '4194303 1\n');
  using _lock = takeInstanceLock(path);
  expect(readdirSync(folder.path)).toEqual(['lock']);
});

test('a start that is just taking a lock over is left to it', () => {
  const path = join(folder.path, 'lock');
  writeFileSync(path, GONE);
  const other = takeInstanceLock(heirOf(path, GONE));
  expect(() => takeInstanceLock(path)).toThrow('Another start took');
  other[Symbol.dispose]();
  takeInstanceLock(path)[Symbol.dispose]();
});

test('what another has taken meanwhile is not given back', () => {
  const path = join(folder.path, 'lock');
  const lock = takeInstanceLock(path);
  writeFileSync(path, `${process.ppid} 1\n`);
  lock[Symbol.dispose]();
  expect(existsSync(path)).toBe(true);
});
