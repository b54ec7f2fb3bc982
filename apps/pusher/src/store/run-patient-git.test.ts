import { join } from 'node:path';
import { gitIn, useTempFolder } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { runPatientGit } from './run-patient-git.ts';

const temp = useTempFolder();

test('a repack does not take large blobs into memory to compare them', async () => {
  const folder = join(temp.path, 'repo.git');
  await gitIn(temp.path)(['init', '--quiet', '--bare', folder]);
  const git = gitIn(folder);
  // Nearly the same, so that git would make a delta of them if it looked; in a pack they are a few kilobytes each.
  const content = Buffer.alloc(65 * 1024 ** 2);
  const blobs: string[] = [];
  for (const first of [1, 2]) {
    content[0] = first;
    blobs.push(await git(['hash-object', '-w', '--stdin'], { input: content }));
  }
  const listing = blobs.map((oid, index) => `100644 blob ${oid}\tfile-${index}\n`).join('');
  const tree = await git(['mktree'], { input: listing });
  await git(['update-ref', 'refs/heads/main', await git(['commit-tree', tree, '-m', 'large'])]);
  await runPatientGit({
    folder,
    home: temp.path,
    args: ['repack', '-a', '-d', '-n', '--quiet'],
    timeoutMs: 60_000,
    signal: new AbortController().signal,
  });
  const bases = await git(['cat-file', '--batch-check=%(deltabase)'], { input: `${blobs.join('\n')}\n` });
  expect(bases.split('\n')).toEqual(['0'.repeat(40), '0'.repeat(40)]);
});
