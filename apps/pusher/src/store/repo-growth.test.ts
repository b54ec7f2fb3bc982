import { existsSync, mkdirSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { useTempFolder } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { judgeGrowth } from './repo-growth.ts';

const folder = useTempFolder();

/** A push that brings a pack of so many bytes. */
function bring(name: string, bytes: number, repo = folder.path): Parameters<typeof judgeGrowth>[0] {
  const packs = join(repo, 'objects', name, 'pack');
  mkdirSync(packs, { recursive: true });
  const pack = join(packs, `pack-${name.slice(-1).repeat(40)}`);
  writeFileSync(`${pack}.pack`, Buffer.alloc(bytes));
  writeFileSync(`${pack}.idx`, '');
  return { folder: repo, quarantine: name, bytesMax: 100 };
}

function putInPlace(name: string): void {
  const packs = join(folder.path, 'objects', name, 'pack');
  mkdirSync(join(folder.path, 'objects/pack'), { recursive: true });
  for (const file of readdirSync(packs))
    renameSync(join(packs, file), join(folder.path, 'objects/pack', file));
}

test('who comes second is judged by what the first has put in place', async () => {
  const first = await judgeGrowth(bring('incoming-a', 60));
  expect(first.fault).toBeNull();
  const second = judgeGrowth(bring('incoming-b', 60));
  // Elsewhere, three are judged meanwhile.
  const elsewhere = join(folder.path, 'elsewhere');
  for (const name of ['incoming-a', 'incoming-b', 'incoming-c'])
    await (await judgeGrowth(bring(name, 60, elsewhere))).end();
  putInPlace('incoming-a');
  await first.end();
  expect((await second).fault).toContain('expected a repository of at most 100 bytes (SLUICE_REPO_BYTES)');
  await (await second).end();
  expect(existsSync(join(folder.path, 'sluice-growth.lock'))).toBe(false);
});

test('who comes second has the room of a first one that came to nothing', async () => {
  const first = await judgeGrowth(bring('incoming-a', 60));
  const second = judgeGrowth(bring('incoming-b', 60));
  await first.end();
  expect((await second).fault).toBeNull();
  await (await second).end();
});
