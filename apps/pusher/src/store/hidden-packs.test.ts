import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { useTempFolder } from '@sluice/testkit';
import { beforeEach, expect, test } from 'vitest';
import { deleteHiddenPacks, hasHiddenPacks, hidePacks, showHiddenPacks } from './hidden-packs.ts';
import { packNames } from './list-packs.ts';

const folder = useTempFolder();
const [A, B] = ['a', 'b'].map((digit) => `pack-${digit.repeat(40)}`) as [string, string];
const FILES = [A, B].flatMap((name) => ['.idx', '.pack', '.rev'].map((ending) => name + ending));

const packs = (): string => join(folder.path, 'objects/pack');
const ownOf = (pack: string): string[] => FILES.filter((name) => name.startsWith(pack)).toSorted();
const files = (): string[] => readdirSync(packs()).toSorted();

beforeEach(() => {
  mkdirSync(packs(), { recursive: true });
  for (const name of FILES) writeFileSync(join(packs(), name), name);
});

test('hidden packs are out of sight, together with an index over several, and come back', async () => {
  writeFileSync(join(packs(), 'multi-pack-index'), '');
  expect(await hasHiddenPacks(folder.path)).toBe(false);
  await hidePacks(folder.path, [A]);
  expect(await hasHiddenPacks(folder.path)).toBe(true);
  expect(await packNames(folder.path)).toEqual(new Set([B]));
  expect(files()).not.toContain('multi-pack-index');
  expect(files().filter((name) => FILES.includes(name))).toEqual(ownOf(B));
  await showHiddenPacks(folder.path);
  expect(files()).toEqual(FILES.toSorted());
});

test('what is deleted goes with everything that belongs to it', async () => {
  await hidePacks(folder.path, [A]);
  await deleteHiddenPacks(folder.path, [A]);
  expect(files()).toEqual(ownOf(B));
});

test('a deletion that was interrupted is finished, and what was only hidden comes back', async () => {
  await hidePacks(folder.path, [A, B]);
  rmSync(join(packs(), `${A}.pack.sluice-hidden`));
  await showHiddenPacks(folder.path);
  expect(files()).toEqual(ownOf(B));
});

test('hiding that was interrupted after the index is undone', async () => {
  renameSync(join(packs(), `${A}.idx`), join(packs(), `${A}.idx.sluice-hidden`));
  await showHiddenPacks(folder.path);
  expect(files()).toEqual(FILES.toSorted());
});

test.each([
  ['deleted', () => deleteHiddenPacks(folder.path, [A])],
  ['shown', () => showHiddenPacks(folder.path)],
])(
  'a pack that is pushed again while it is hidden stays when that is %s, with what holds it',
  async (_, end) => {
    await hidePacks(folder.path, [A]);
    for (const ending of ['.keep', '.pack', '.idx']) writeFileSync(join(packs(), A + ending), 'again');
    await end();
    expect(files().filter((name) => name.startsWith(A) && !name.endsWith('.rev'))).toEqual(
      ['.idx', '.keep', '.pack'].map((ending) => A + ending),
    );
    expect(readFileSync(join(packs(), `${A}.pack`), 'utf8')).toBe('again');
    expect(await hasHiddenPacks(folder.path)).toBe(false);
  },
);

test('a pack that cannot be hidden leaves none hidden that could not be shown again', async () => {
  await expect(hidePacks(folder.path, [A, `pack-${'c'.repeat(40)}`])).rejects.toThrow(/ENOENT/);
  await showHiddenPacks(folder.path);
  expect(files()).toEqual(FILES.toSorted());
});
