import { mkdirSync, readdirSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { useTempFolder } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { sweepDebris } from './sweep-debris.ts';

const folder = useTempFolder();
const HOUR_MS = 3_600_000;
const PACK = `pack-${'a'.repeat(40)}`;
const HOLD = 'receive-pack 4242 on host\n';

/** Makes files, each old enough to be debris if it is any. */
function make(root: string, files: Record<string, string>): void {
  const old = new Date(Date.now() - 2 * HOUR_MS);
  for (const [name, text] of Object.entries(files)) {
    const path = join(root, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    utimesSync(path, old, old);
  }
}

function filesBelow(root: string): string[] {
  return readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1))
    .toSorted();
}

const sweep = () => sweepDebris(folder.path, HOUR_MS, new AbortController().signal);

const DEBRIS = {
  'packed-refs.17.sluice-new': '',
  'HEAD.lock': '',
  'with-results/packed-refs.lock': '',
  'with-results/packed-refs.17.sluice-new': '',
  'objects/tmp_objdir-incoming-Ab12': '',
  'objects/incoming-Ab12': '',
  'objects/3f/tmp_obj_Ab12': '',
  'objects/info/commit-graph.lock': '',
  'objects/info/commit-graphs/commit-graph-chain.lock': '',
  'objects/info/commit-graphs/tmp_graph_Ab12': '',
  'objects/pack/tmp_pack_Ab12': '',
  'objects/pack/.tmp-17-pack-ab.idx': '',
  'objects/pack/multi-pack-index.lock': '',
  [`objects/pack/${PACK}.keep`]: HOLD,
};

const NOT_DEBRIS = {
  HEAD: '',
  'packed-refs': '',
  'with-results/packed-refs': '',
  'not-objects/tmp_objdir-incoming-Ab12': '',
  'objects/3f/77aa': '',
  'objects/info/commit-graphs/commit-graph-chain': '',
  [`objects/pack/${PACK}.idx`]: '',
  [`objects/pack/${PACK}.pack`]: '',
  [`objects/pack/pack-${'b'.repeat(40)}.keep`]: 'kept by the operator\n',
};

test('what dead processes left in a repository goes, and nothing else', async () => {
  const repo = join(folder.path, 'repos/ab/abcd.sha1.git');
  make(repo, { ...DEBRIS, ...NOT_DEBRIS });
  expect(await sweep()).toBe(Object.keys(DEBRIS).length);
  expect(filesBelow(repo)).toEqual(Object.keys(NOT_DEBRIS).toSorted());
});

test('what is younger is kept: somebody may be at it', async () => {
  const repo = join(folder.path, 'repos/ab/abcd.sha1.git');
  make(repo, DEBRIS);
  const now = new Date();
  for (const name of Object.keys(DEBRIS)) utimesSync(join(repo, name), now, now);
  expect(await sweep()).toBe(0);
  expect(filesBelow(repo)).toHaveLength(Object.keys(DEBRIS).length);
});

test('repositories and hook scripts that were not finished go', async () => {
  make(folder.path, {
    'repos/ab/abcd.sha1.git.1f.new': '',
    'hooks/0123456789ab.17': '',
    'hooks/0123456789ab/pre-receive': '',
  });
  expect(await sweep()).toBe(2);
  expect(filesBelow(folder.path)).toEqual(['hooks/0123456789ab/pre-receive']);
});

test('a repository that is kept elsewhere is left to whoever keeps it', async () => {
  const elsewhere = join(folder.path, 'elsewhere');
  make(elsewhere, DEBRIS);
  mkdirSync(join(folder.path, 'repos/ab'), { recursive: true });
  symlinkSync(elsewhere, join(folder.path, 'repos/ab/abcd.sha1.git'));
  expect(await sweep()).toBe(0);
  expect(filesBelow(elsewhere)).toHaveLength(Object.keys(DEBRIS).length);
});
