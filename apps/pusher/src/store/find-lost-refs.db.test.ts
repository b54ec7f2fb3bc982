import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { commitFiles, gitIn, makeRepo, useTempFolder, useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { findLostRefs } from './find-lost-refs.ts';

const database = useTestDatabase();
const temporary = useTempFolder();

/** Refs `refs/tags/00000` and up, with the given objects. */
async function makeRefs(repoId: string, oids: readonly string[]): Promise<void> {
  await database.db.insertInto('repo').values({ repo_id: repoId }).execute();
  for (let at = 0; at < oids.length; at += 10_000) {
    const values = oids
      .slice(at, at + 10_000)
      .map((oid, n) => ({ repo_id: repoId, oid, name: `refs/tags/${String(at + n).padStart(5, '0')}` }));
    await database.db.insertInto('ref').values(values).execute();
  }
}

const check = (repoId: string, folder: string) =>
  findLostRefs(database.db, repoId, { folder, home: temporary.path });

test('of tens of thousands of refs it counts those without an object, and names the first', async () => {
  const work = await makeRepo(join(temporary.path, 'work'));
  const here = await commitFiles(work, { 'a.txt': 'a' });
  const gone = (n: number): string => n.toString(16).padStart(40, 'f');
  await makeRefs(
    'many/refs',
    Array.from({ length: 25_000 }, (_, n) => (n % 1000 === 999 ? gone(n) : here)),
  );
  expect(await check('many/refs', join(work.folder, '.git'))).toEqual({
    refs: 25_000,
    lost: 25,
    example: { name: 'refs/tags/00999', oid: gone(999) },
  });
});

test('without an object folder every ref has lost its own; without refs nothing is lost', async () => {
  await makeRefs('no/folder', ['1'.repeat(40), '2'.repeat(40)]);
  const nowhere = join(temporary.path, 'nowhere');
  const example = { name: 'refs/tags/00000', oid: '1'.repeat(40) };
  expect(await check('no/folder', nowhere)).toEqual({ refs: 2, lost: 2, example });
  await makeRefs('no/refs', []);
  expect(await check('no/refs', nowhere)).toEqual({ refs: 0, lost: 0, example: null });
});

test('a folder that git cannot read is no answer', async () => {
  await makeRefs('no/git', ['1'.repeat(40)]);
  const folder = join(temporary.path, 'broken.git');
  mkdirSync(join(folder, 'objects'), { recursive: true });
  await expect(check('no/git', folder)).rejects.toMatchObject({ status: 503 });
  await gitIn(temporary.path)(['init', '--quiet', '--bare', folder]);
  expect(await check('no/git', folder)).toMatchObject({ lost: 1 });
});
