import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { commitFiles, makeRepo, useTempFolder, type Git } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { readPacked } from './read-packed.ts';

const folder = useTempFolder();

/** Path of the only pack. */
function packOf(git: Git): string {
  const packs = join(git.folder, '.git/objects/pack');
  const [index, ...others] = readdirSync(packs).filter((name) => name.endsWith('.idx'));
  expect(others).toEqual([]);
  return join(packs, index!.slice(0, -'.idx'.length));
}

test.each(['sha1', 'sha256'] as const)(
  'what a pack holds whole is what git reads from it: %s',
  async (format) => {
    const git = await makeRepo(join(folder.path, format), { objectFormat: format });
    const files = Array.from({ length: 300 }, (_, number) => [
      `f/${number}`,
      `${number} `.repeat(number * 20),
    ]);
    const edges = { empty: '', large: 'x'.repeat(64 * 1024) };
    const commit = await commitFiles(git, { ...Object.fromEntries(files), ...edges });
    await git(['tag', '--annotate', '--message=one', 'v1']);
    const listed = await git(['cat-file', '--batch-all-objects', '--batch-check']);
    const all = listed.split('\n').map((line) => line.split(' ') as [string, string, string]);
    const oids = all.map(([oid]) => `${oid}\n`).join('');
    await git(['pack-objects', '--quiet', '--window=0', '.git/objects/pack/pack'], { input: oids });
    expect(all.length).toBeGreaterThan(300);
    const sizes: number[] = [];
    for (const [oid, kind, bytes] of all) {
      const found = readPacked(packOf(git), format, oid);
      expect([oid, found?.kind, found?.content.length]).toEqual([oid, kind, Number(bytes)]);
      sizes.push(found!.content.length);
    }
    expect([Math.min(...sizes), Math.max(...sizes)]).toEqual([0, 64 * 1024]);
    expect(readPacked(packOf(git), format, commit)?.content.toString()).toContain('\nauthor Ada');
    const missing = `${commit.slice(0, -1)}${commit.endsWith('0') ? '1' : '0'}`;
    expect(readPacked(packOf(git), format, missing)).toBeNull();
  },
);

test('what is stored as a delta, or is large, is left to git, and so is a pack that is gone', async () => {
  const git = await makeRepo(join(folder.path, 'deltas'));
  const text = Array.from({ length: 500 }, (_, line) => `line ${line} of the text`);
  await commitFiles(git, { 'a.txt': text.join('\n'), 'large.bin': 'x'.repeat(64 * 1024 + 1) });
  await commitFiles(git, { 'a.txt': [...text, 'more'].join('\n') });
  await git(['repack', '-adfq']);
  const pack = packOf(git);
  const verified = (await git(['verify-pack', '--verbose', `${pack}.idx`])).split('\n');
  const delta = verified.map((line) => /^(\w{40}) blob +\d+ \d+ \d+ 1 \w{40}$/.exec(line)?.[1]).find(Boolean);
  expect(readPacked(pack, 'sha1', delta!)).toBeNull();
  const large = await git(['rev-parse', 'HEAD:large.bin']);
  expect(readPacked(pack, 'sha1', large)).toBeNull();
  const head = await git(['rev-parse', 'HEAD']);
  expect(readPacked(pack, 'sha1', head)).toMatchObject({ kind: 'commit' });
  expect(readPacked(`${pack}-gone`, 'sha1', head)).toBeNull();
});
