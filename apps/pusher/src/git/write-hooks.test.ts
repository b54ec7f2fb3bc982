import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { useTempFolder } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { writeHooks } from './write-hooks.ts';

const data = useTempFolder();

test('a second pusher on the folder leaves the scripts that the first runs where they are', async () => {
  const folder = await writeHooks(data.path);
  const inodes = (): number[] =>
    [folder, ...readdirSync(folder).map((name) => join(folder, name))].map((path) => statSync(path).ino);
  const before = inodes();
  expect(before).toHaveLength(3);
  expect(await writeHooks(data.path)).toBe(folder);
  expect(inodes()).toEqual(before);
});

test('what is not as it should be is put right, and nothing else is left there', async () => {
  const folder = await writeHooks(data.path);
  const script = readFileSync(join(folder, 'pre-receive'), 'utf8');
  writeFileSync(join(folder, 'pre-receive'), '#!/bin/sh\nexit 0\n');
  chmodSync(join(folder, 'proc-receive'), 0o644);
  writeFileSync(join(folder, 'update'), '');
  await writeHooks(data.path);
  expect(readdirSync(folder).toSorted()).toEqual(['pre-receive', 'proc-receive']);
  expect(readFileSync(join(folder, 'pre-receive'), 'utf8')).toBe(script);
  for (const name of readdirSync(folder)) expect(statSync(join(folder, name)).mode & 0o100).toBe(0o100);
  expect(readdirSync(join(data.path, 'hooks'))).toHaveLength(1);
});
