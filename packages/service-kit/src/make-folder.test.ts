import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { makeFolder } from './make-folder.ts';

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'sluice-folder-'));
});
afterEach(() => rm(root, { recursive: true }));

test('makes a folder and those above it for this user alone, and takes one that is there', async () => {
  const path = join(root, 'a', 'b');
  await makeFolder('SLUICE_DATA_DIR', path);
  await makeFolder('SLUICE_DATA_DIR', path);
  expect((await stat(path)).mode & 0o777).toBe(0o700);
});

test('names the setting and what to do where no folder can be', async () => {
  const file = join(root, 'file');
  await writeFile(file, '');
  for (const [path, code] of [
    [file, 'EEXIST'],
    [join(file, 'below'), 'ENOTDIR'],
  ] as const)
    await expect(makeFolder('SLUICE_DATA_DIR', path)).rejects.toThrow(
      `SLUICE_DATA_DIR: expected a folder that this user may write to, got ${path} (${code}). Make it`,
    );
});
