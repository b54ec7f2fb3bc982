import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { commitFiles, defineEffect, type Git } from '@sluice/testkit';
import { expect, test, vi } from 'vitest';
import { runCli } from '../run-cli.ts';
import { useAdopted } from './use-adopted.ts';

// Each push starts a program.
vi.setConfig({ testTimeout: 180_000 });
const adopted = useAdopted();
const DEFINITION = 'on: [refs/heads/main]\nrun: make\n';

async function signersOf(repoId: string): Promise<(string | null)[]> {
  const { db } = adopted.database;
  const query = db.selectFrom('op_record').select('signer').where('repo_id', '=', repoId).orderBy('seq');
  return (await query.execute()).map(({ signer }) => signer);
}

test('who pushes is who the server says, or else the account that git runs as', async () => {
  const { repoId, bare, work, push, install } = await adopted.begin();
  await install();
  expect((await push(['origin', 'main'], { user: 'alice' })).code).toBe(0);
  expect((await push(['origin', 'main:other'])).code).toBe(0);
  expect((await install('--pusher-from', 'GL_USER')).code).toBe(0);
  await commitFiles(work, { 'a.txt': 'next' });
  // A name with more in it than a shell should see.
  const user = `o'neil $(touch ${adopted.folder}/x) "`;
  const locally = (name: string) =>
    work.attempt(['push', `file://${bare.folder}`, 'main'], { env: { GL_USER: name } });
  expect((await locally(user)).code).toBe(0);
  expect(await signersOf(repoId)).toEqual(['user:alice', `user:${userInfo().username}`, `user:${user}`]);
  await commitFiles(work, { 'a.txt': 'last' });
  expect((await locally('a\nb')).stderr).toContain(
    '(Sluice is not set up right on this server: One setting is wrong: SLUICE_PUSHER: expected text without',
  );
});

test('only admins who are named change what is below refs/meta/', async () => {
  const { work, push, install, known } = await adopted.begin();
  const installed = await install('--admin', 'lead,root');
  expect(installed.stdout).toContain('lead, root may define effects');
  const definition = await defineEffect(work, 'test', DEFINITION);
  const refused = await push(['origin', 'main', 'refs/meta/effects/test'], { user: 'alice' });
  expect(refused.code).toBe(1);
  expect(refused.stderr).toContain(
    'refs/meta/effects/test (expected an admin: refs/meta/effects/** is for admins; sluice hook install --admin names the admins)',
  );
  expect(await known()).toEqual({});
  expect((await push(['origin', 'refs/meta/effects/test'], { user: 'lead' })).code).toBe(0);
  expect(await known()).toEqual({ 'refs/meta/effects/test': definition });
});

test('the command line is who SLUICE_PUSHER says, as git is, where the repository is a folder', async () => {
  const { bare, work, install, known } = await adopted.begin();
  await install('--admin', 'lead');
  const file = join(adopted.folder, 'effect.yaml');
  writeFileSync(file, DEFINITION);
  const add = (name: string) =>
    runCli(['effect', 'add', 'test', file, '--remote', bare.folder], {
      cwd: work.folder,
      env: { PATH: process.env['PATH'], SLUICE_PUSHER: name },
    });
  expect(await add('alice')).toMatchObject({ code: 1, stderr: expect.stringContaining('expected an admin') });
  expect(await add('lead')).toMatchObject({ code: 0 });
  expect(Object.keys(await known())).toEqual(['refs/meta/effects/test']);
});

interface Key {
  config: readonly string[];
  publicKey: string;
}

function makeKey(name: string): Key {
  const file = join(adopted.folder, `key-${name}`);
  const made = spawnSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', name, '-f', file]);
  expect(made.status).toBe(0);
  return {
    config: ['-c', 'gpg.format=ssh', '-c', `user.signingkey=${file}`],
    publicKey: readFileSync(`${file}.pub`, 'utf8').trim(),
  };
}

async function commitAt(work: Git, ref: string, file: string, text: string): Promise<void> {
  const blob = await work(['hash-object', '-w', '--stdin'], { input: text });
  const tree = await work(['mktree'], { input: `100644 blob ${blob}\t${file}\n` });
  await work(['update-ref', ref, await work(['commit-tree', tree, '-m', `Set ${ref}`])]);
}

test('a repository with members takes signed pushes, and each certificate once', async () => {
  const { repoId, bare, work, push, install, known } = await adopted.begin();
  await install();
  const [alice, stranger] = [makeKey('alice'), makeKey('stranger')];
  // Nobody is a member yet, so that nobody could check a signature, and the server asks for none.
  expect((await push(['--signed=true', 'origin', 'main'], alice)).stderr).toContain(
    'does not support --signed',
  );
  await commitAt(
    work,
    'refs/meta/members/alice',
    'member.yaml',
    `role: admin\nkeys:\n  - ${alice.publicKey}\n`,
  );
  await commitAt(
    work,
    'refs/meta/config',
    'policy.yaml',
    'refs:\n  "refs/heads/**":\n    attestation: required\n',
  );
  expect(await push(['origin', 'refs/meta/members/alice'])).toMatchObject({ code: 0 });

  const unsigned = await push(['origin', 'refs/meta/config']);
  expect(unsigned.stderr).toContain('expected a signed push');
  expect((await push(['--signed=true', 'origin', 'main'], stranger)).stderr).toContain(
    'a key of nobody who is a member',
  );
  const signed = await push(['--signed=true', 'origin', 'main'], { ...alice, user: 'somebody' });
  expect(signed).toMatchObject({ code: 0 });
  expect(Object.keys(await known())).toEqual(['refs/heads/main', 'refs/meta/members/alice']);
  expect((await signersOf(repoId)).at(-1)).toBe('member:alice');
  expect(await adopted.cli(['op', 'verify', repoId])).toMatchObject({ code: 0 });

  // A certificate whose nonce was not made by this connection.
  writeFileSync(
    join(bare.folder, 'hooks/pre-receive'),
    readFileSync(join(bare.folder, 'hooks/pre-receive'), 'utf8').replace(
      '"$GIT_PUSH_CERT_NONCE_STATUS"',
      'BAD',
    ),
  );
  await commitFiles(work, { 'a.txt': 'next' });
  const replayed = await push(['--signed=true', 'origin', 'main'], alice);
  expect(replayed.stderr).toContain('the push certificate was not made for this repository on this server');
});

test('without DATABASE_URL, and while no local start runs, a push and every command say so', async () => {
  const { bare, push, install } = await adopted.begin();
  await install();
  const file = join(bare.folder, 'sluice/env');
  writeFileSync(file, readFileSync(file, 'utf8').replace(/^DATABASE_URL=.*\n/m, ''));
  const said = 'expected DATABASE_URL, or a running local start (';
  expect((await push(['origin', 'main'])).stderr).toContain(
    `(Sluice is not set up right on this server: ${said}`,
  );
  const synced = await adopted.cli(['hook', 'sync', bare.folder], { DATABASE_URL: '' });
  expect(synced).toMatchObject({ code: 1, stderr: expect.stringContaining(`sluice: ${said}`) });
  expect(synced.stderr).toMatch(/next: Set DATABASE_URL, .* or start everything here with npm start\.\n$/);
});

test('a wrong setting is named by an installation, with what to do', async () => {
  const { repoId, bare } = await adopted.begin();
  const { stderr } = await adopted.cli(['hook', 'install', bare.folder, '--repo', repoId], {
    SLUICE_POOLER: 'x',
  });
  expect(stderr).toContain('sluice: One setting is wrong:\n  SLUICE_POOLER: expected');
  expect(stderr).toContain('  next: Correct each setting the message lists;');
});
