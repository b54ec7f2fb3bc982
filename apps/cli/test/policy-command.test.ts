import { commitFiles, gitIn, makeRepo, useTempFolder, type Git } from '@sluice/testkit';
import { beforeEach, expect, test } from 'vitest';
import { runCli } from './run-cli.ts';

const folder = useTempFolder();
let clone: Git;

/** A bare repository with a branch, and a clone of it. */
beforeEach(async () => {
  await gitIn(folder.path)(['init', '--quiet', '--bare', 'bare.git']);
  clone = await makeRepo(`${folder.path}/clone`);
  await commitFiles(clone, { 'a.txt': 'one' });
  await clone(['remote', 'add', 'origin', '../bare.git']);
  await clone(['push', '--quiet', 'origin', 'main', 'main:refs/x/refs/meta/config']);
});

async function store(ref: string, file: string, text: string): Promise<void> {
  const blob = await clone(['hash-object', '-w', '--stdin'], { input: text });
  const tree = await clone(['mktree'], { input: `100644 blob ${blob}\t${file}\n` });
  await clone(['push', '--quiet', '--force', 'origin', `${await clone(['commit-tree', tree])}:${ref}`]);
}

const cli = (...args: string[]) =>
  runCli(args, { cwd: clone.folder, env: { PATH: process.env['PATH'] ?? '', HOME: folder.path } });

test('the rules of a repository and those that hold everywhere, as they decide', async () => {
  await store('refs/meta/members/ada', 'member.yaml', '');
  await store(
    'refs/meta/config',
    'policy.yaml',
    'rules:\n  refs/heads/*: { force: false }\n  refs/heads/main: { roles: [], attestation: required }\n',
  );
  expect(await cli('policy', 'show')).toEqual({
    code: 0,
    stderr: '',
    stdout: [
      'PATTERN               ROLES   FORCE  DELETE  ATTESTATION',
      'refs/meta/effects/**  admin   -      -       required',
      'refs/meta/members/**  admin   -      false   required',
      'refs/meta/results/**  worker  -      -       off',
      'refs/meta/effects     admin   -      -       required',
      'refs/meta/members     admin   -      false   required',
      'refs/meta/results     worker  -      -       off',
      'refs/meta/config/**   admin   -      -       required',
      'refs/meta/config      admin   -      -       required',
      'refs/heads/main       nobody  -      -       required',
      'refs/heads/*          -       false  -       -',
      'refs/meta/**          admin   -      -       required',
      'refs/meta             admin   -      -       required',
      'refs/**               writer  true   true    optional',
      '',
    ].join('\n'),
  });
  expect((await cli('policy', 'show', 'refs/heads/main')).stdout).toBe(
    [
      'WHAT         IN FORCE  BY THE RULE FOR',
      'roles        nobody    refs/heads/main',
      'force        false     refs/heads/*',
      'delete       true      refs/**',
      'attestation  required  refs/heads/main',
      '',
    ].join('\n'),
  );
  expect(await clone(['for-each-ref', '--format=%(refname)'])).toBe(
    'refs/heads/main\nrefs/remotes/origin/main',
  );
});

test('without a policy and members it says what holds, and that signatures do not count yet', async () => {
  const shown = await cli('policy', 'show', 'refs/tags/v1');
  expect(shown.stdout).toContain('roles        writer    refs/**\n');
  expect(shown.stdout).toContain('attestation counts from the first member on; there is none yet\n');
});

test('a policy that cannot be read, and a name that is none, are said to be so', async () => {
  await store('refs/meta/config', 'policy.yaml', 'rules: all\n');
  expect(await cli('policy', 'show')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(
      'nobody can push to origin, since its policy cannot be read: policy.yaml:1:8: expected a mapping',
    ),
  });
  expect((await cli('policy', 'show', 'main')).stderr).toContain(
    'expected a full ref name such as refs/heads/main, got "main"',
  );
});
