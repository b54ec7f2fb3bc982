import { commitFiles, makeRepo, useTempFolder, type Git } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { expectObjects, readBroughtFile, type ReadBrought } from './brought-objects.ts';
import { readObjectFacts } from './object-facts.ts';

const folder = useTempFolder();

/** Facts as they are read with and without what a push brought, and how many objects were read without git. */
async function factsOf(git: Git, read: ReadBrought, oids: string[]): Promise<[unknown, number]> {
  const options = { folder: `${git.folder}/.git`, home: folder.path };
  let brought = 0;
  const counting: ReadBrought = async (oid) => {
    const found = await read(oid);
    if (found !== null) brought += 1;
    return found;
  };
  const facts = await readObjectFacts(oids, options, counting);
  expect(Object.fromEntries(facts)).toEqual(Object.fromEntries(await readObjectFacts(oids, options)));
  return [Object.fromEntries(facts), brought];
}

async function pack(git: Git, ...oids: string[]): Promise<void> {
  await git(['pack-objects', '--quiet', '.git/objects/pack/pack'], { input: `${oids.join('\n')}\n` });
}

test.each(['sha1', 'sha256'] as const)('what a push brought is what git finds: %s', async (objectFormat) => {
  const git = await makeRepo(`${folder.path}/${objectFormat}`, { objectFormat });
  const old = await commitFiles(git, { 'a.txt': 'old' });
  await git(['repack', '-adq']);
  const read = await expectObjects(`${git.folder}/.git`, objectFormat);
  const commit = await commitFiles(git, { 'a.txt': 'new', 'z/b.txt': 'deep' });
  await git(['tag', '--annotate', '--message=one', 'one']);
  await git(['tag', '--annotate', '--message=two', 'two', 'one']);
  await git(['tag', '--annotate', '--message=old', 'old', old]);
  await git(['tag', '--annotate', '--message=blob', 'blob', `${commit}:a.txt`]);
  const named = ['one', 'two', 'old', 'blob', `${commit}^{tree}`, `${commit}:a.txt`, commit, old];
  const oids = (await git(['rev-parse', ...named])).split('\n');
  await pack(git, ...oids.slice(0, -1));
  const tree = oids[4];
  const [facts, brought] = await factsOf(git, read, oids);
  expect(facts).toMatchObject({
    [oids[1]!]: { kind: 'tag', commit, tree },
    [oids[2]!]: { kind: 'tag', commit: old },
    [oids[3]!]: { kind: 'tag', commit: null },
    [oids[5]!]: { kind: 'blob', commit: null },
    [commit]: { kind: 'commit', commit, tree },
    [old]: { kind: 'commit', commit: old },
  });
  // Two tags lead to commits, one of them by way of the other, and the old commit was there before.
  expect(brought).toBe(10);
  expect((await readBroughtFile(read, { commit, file: 'a.txt' }))?.toString()).toBe('new');
  for (const file of ['none', 'z', 'z/b.txt', 'a']) {
    expect(await readBroughtFile(read, { commit, file })).toBeUndefined();
  }
  expect(await readBroughtFile(read, { commit: old, file: 'a.txt' })).toBeUndefined();
});
