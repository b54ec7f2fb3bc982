import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { makeRepo, useTempFolder, useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { createGit } from '../git.ts';
import { RepoObjects } from './repo-objects.ts';

const database = useTestDatabase();
const temporary = useTempFolder();
const NAME = 'effect.yaml';

/** Commits whose tree has an entry of that name: a file, one to run, a link and a submodule. */
async function makeCommits() {
  const work = await makeRepo(join(temporary.path, 'work'));
  const blob = await work(['hash-object', '-w', '--stdin'], { input: 'run: make\n' });
  const commits: string[] = [];
  for (const entry of [`100644 blob ${blob}`, `100755 blob ${blob}`, `120000 blob ${blob}`]) {
    const tree = await work(['mktree'], { input: `${entry}\t${NAME}\n` });
    commits.push(await work(['commit-tree', tree, '-m', entry]));
  }
  const tree = await work(['mktree'], { input: `160000 commit ${commits[0]}\t${NAME}\n` });
  commits.push(await work(['commit-tree', tree, '-m', 'submodule']));
  return { work, commits };
}

async function readFiles(repoId: string, gitDir: string, commits: string[], bytesMax = 100) {
  const git = createGit(temporary.path, { PATH: process.env['PATH'] });
  const objects = new RepoObjects({ repoId, gitDir, git });
  const files = await objects.files(database.db, { commits, name: NAME, bytesMax });
  return new Map([...files].map(([commit, content]) => [commit, content.toString()]));
}

test('a file is what the pusher takes for one, from the disk as from the database', async () => {
  const { work, commits } = await makeCommits();
  const files = new Map(commits.slice(0, 2).map((commit) => [commit, 'run: make\n']));
  expect(await readFiles('objects/disk', join(work.folder, '.git'), commits)).toEqual(files);
  expect(await readFiles('objects/disk', join(work.folder, '.git'), commits, 3)).toEqual(new Map());

  const all = await work(['cat-file', '--batch-all-objects', '--batch-check=%(objectname) %(objecttype)']);
  await database.db.insertInto('repo').values({ repo_id: 'objects/stored' }).execute();
  for (const [oid, kind] of all.split('\n').map((line) => line.split(' ') as [string, 'blob'])) {
    const bytes = execFileSync('git', ['cat-file', kind, oid], { cwd: work.folder });
    await database.db
      .insertInto('small_object')
      .values({ repo_id: 'objects/stored', oid, kind, bytes })
      .execute();
  }
  const nowhere = join(temporary.path, 'nowhere');
  expect(await readFiles('objects/stored', nowhere, commits)).toEqual(files);
  expect(await readFiles('objects/stored', nowhere, commits, 3)).toEqual(new Map());
});
