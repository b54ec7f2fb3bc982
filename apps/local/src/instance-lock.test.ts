import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { useTempFolder } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { takeInstanceLock } from './instance-lock.ts';

const folder = useTempFolder();

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
});
