import { existsSync, mkdirSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { repoFolder } from '@sluice/ref-store';
import { useTempFolder, useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { ensureRepoFolder } from '../git/repo-folder.ts';
import { sweepUnborn } from './remove-unborn.ts';

const database = useTestDatabase();
const temp = useTempFolder();

const HOUR_MS = 3_600_000;

async function makeFolder(repoId: string, format: 'sha1' | 'sha256' = 'sha1'): Promise<string> {
  const folder = repoFolder(temp.path, repoId, format);
  await ensureRepoFolder(folder, repoId, format);
  return folder;
}

function age(folder: string): void {
  const then = new Date(Date.now() - 2 * HOUR_MS);
  for (const part of ['objects/pack', 'objects', '.']) utimesSync(join(folder, part), then, then);
}

test('what a first push left goes when it is old; what is or was a repository, or is being pushed to, stays', async () => {
  const left = [await makeFolder('left'), await makeFolder('other/format', 'sha256')];
  const staying = {
    'a repository': await makeFolder('known'),
    'one that a restored database has forgotten': await makeFolder('forgotten'),
    'one that somebody pushes to': await makeFolder('busy'),
    'one that was made just now': await makeFolder('young'),
    'one that is in the place of another': repoFolder(temp.path, 'misplaced', 'sha1'),
  };
  await ensureRepoFolder(staying['one that is in the place of another'], 'left', 'sha1');
  await database.db
    .insertInto('repo')
    .values(['known', 'other/format'].map((repo_id) => ({ repo_id, object_format: 'sha1' })))
    .execute();
  writeFileSync(join(staying['one that a restored database has forgotten'], 'packed-refs'), '');
  mkdirSync(join(staying['one that somebody pushes to'], 'objects/tmp_objdir-incoming-abc'));
  for (const folder of [...left, ...Object.values(staying)])
    if (folder !== staying['one that was made just now']) age(folder);

  const sweep = async (): Promise<number> =>
    await sweepUnborn(database.db, {
      dataDir: temp.path,
      olderThanMs: HOUR_MS,
      signal: new AbortController().signal,
    });
  expect(await sweep()).toBe(2);
  expect(left.filter(existsSync)).toEqual([]);
  expect(Object.entries(staying).filter(([, folder]) => !existsSync(folder))).toEqual([]);
  const repos = await database.db.selectFrom('repo').select('repo_id').orderBy('repo_id').execute();
  expect(repos.map(({ repo_id }) => repo_id)).toEqual(['known', 'other/format']);
  expect(await sweep()).toBe(0);
});
