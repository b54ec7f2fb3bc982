import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { commitFileAt, gitIn, makeRepo, useTempFolder } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { createGit, type Git } from './git.ts';
import { fetchRemoteFiles, listRemoteRefs } from './remote-refs.ts';

const folder = useTempFolder();
const REF = 'refs/meta/members/ada';

/** The git of a clone, with a remote that lists more refs than it has. */
async function lyingRemote(lines: (oid: string) => string[]): Promise<{ git: Git; oid: string }> {
  const remote = await makeRepo(join(folder.path, 'remote'));
  const oid = await commitFileAt(remote, REF, 'member.yaml', 'role: admin\n');
  await makeRepo(join(folder.path, 'clone'));
  const bin = join(folder.path, 'bin');
  mkdirSync(bin);
  writeFileSync(join(bin, 'list'), `${lines(oid).join('\n')}\n`);
  const real = spawnSync('sh', ['-c', 'command -v git'], { encoding: 'utf8' }).stdout.trim();
  writeFileSync(
    join(bin, 'git'),
    `#!/bin/sh\n[ "$1" = ls-remote ] && exec cat ${bin}/list\nexec ${real} "$@"\n`,
    { mode: 0o755 },
  );
  const git = createGit(join(folder.path, 'clone'), { PATH: `${bin}:${process.env['PATH']}` });
  return { git, oid };
}

test('a name that a remote makes up writes no ref of the clone', async () => {
  const { git, oid } = await lyingRemote((one) => [
    `${one}\t${REF}:refs/replace/${one}`,
    `${one}\t${REF}`,
    `${one}\t+${REF}:refs/heads/main`,
    `${one}\t--upload-pack=false`,
  ]);
  const remote = join(folder.path, 'remote');
  const refs = await listRemoteRefs(git, remote, { patterns: ['refs/meta/members/*'] });
  const files = await fetchRemoteFiles(git, remote, refs, 'member.yaml');
  expect(refs).toEqual([{ ref: REF, oid }]);
  expect(files.map(String)).toEqual(['role: admin\n']);
  expect(await gitIn(join(folder.path, 'clone'))(['for-each-ref'])).toBe('');
});

test('a link is not the file that it names, and its own text is none either', async () => {
  const { git, oid } = await lyingRemote((one) => [`${one}\t${REF}`]);
  const remote = gitIn(join(folder.path, 'remote'));
  const blob = await remote(['hash-object', '-w', '--stdin'], { input: 'role: admin\n' });
  const commit = async (mode: string, of: string): Promise<string> => {
    const tree = await remote(['mktree'], { input: `${mode} ${of}\tmember.yaml\n` });
    return await remote(['commit-tree', tree, '-m', 'x']);
  };
  const commits = [
    oid,
    await commit('120000 blob', blob),
    await commit('160000 commit', oid),
    await commit('100755 blob', blob),
  ];
  const refs = commits.map((one, index) => ({ ref: `refs/meta/members/m${index}`, oid: one }));
  for (const { ref, oid: one } of refs) await remote(['update-ref', ref, one]);
  const files = await fetchRemoteFiles(git, remote.folder, refs, 'member.yaml');
  const text = Buffer.from('role: admin\n');
  expect(files).toEqual([text, undefined, undefined, text]);
});
