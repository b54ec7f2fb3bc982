import { join } from 'node:path';
import { expect, test } from 'vitest';
import { commitFiles, defineEffect, gitIn, makeRepo } from './git.ts';
import { useTempFolder } from './temp-folder.ts';

const folder = useTempFolder();

test('the same steps give the same object ids, whatever this machine is configured to', async () => {
  const oids: string[] = [];
  for (const name of ['a', 'b']) {
    const git = await makeRepo(join(folder.path, name));
    oids.push(await commitFiles(git, { 'src/x.txt': 'x' }, 'first'));
  }
  expect(oids[0]).toMatch(/^[0-9a-f]{40}$/);
  expect(oids[1]).toBe(oids[0]);
});

test('a definition is a commit whose tree holds effect.yaml, and a new version follows the former', async () => {
  const git = await makeRepo(join(folder.path, 'repo'), { objectFormat: 'sha256' });
  const first = await defineEffect(git, 'test', 'run: make\n');
  const second = await defineEffect(git, 'test', 'run: make test\n');
  expect(await git(['show', 'refs/meta/effects/test:effect.yaml'])).toBe('run: make test');
  expect(await git(['rev-parse', `${second}^`])).toBe(first);
  expect(first).toHaveLength(64);
});

test('a failing command throws with git’s words; attempt returns them', async () => {
  const git = gitIn(folder.path);
  await expect(git(['rev-parse', 'HEAD'])).rejects.toThrow(
    /git rev-parse HEAD exited 128:\nfatal: not a git repository/,
  );
  expect(await git.attempt(['rev-parse', 'HEAD'])).toMatchObject({ code: 128 });
});
