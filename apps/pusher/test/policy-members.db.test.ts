import { globSync } from 'node:fs';
import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { table } from '@sluice/db';
import { commitFileAt, commitFiles, makeKey, signingWith, type SigningKey } from '@sluice/testkit';
import { sql } from 'kysely';
import { beforeEach, expect, test, vi } from 'vitest';
import { closeCommitGate } from './commit-gate.ts';
import { packOf } from './pack-of.ts';
import { preamble, reportOf } from './raw-push.ts';
import { COMPANY, useGovernedRepo } from './use-governed-repo.ts';

const repo = useGovernedRepo();

let keys: Record<'ada' | 'bob' | 'bot' | 'gone', SigningKey>;

const MEMBERS = [
  ['ada', 'admin', false],
  ['bob', 'writer', false],
  ['bot', 'worker', false],
  ['gone', 'writer', true],
] as const;

/** Makes somebody of each role a member. */
beforeEach(async () => {
  const key = (name: string): SigningKey => makeKey(repo.pusher.folder, name);
  keys = { ada: key('ada'), bob: key('bob'), bot: key('bot'), gone: key('gone') };
  for (const [name, role, isRevoked] of MEMBERS) {
    const yaml = `role: ${role}\nrevoked: ${isRevoked}\nkeys:\n  - ${keys[name].publicKey}\n`;
    await commitFileAt(repo.work, `refs/meta/members/${name}`, 'member.yaml', yaml);
  }
  const refs = MEMBERS.map(([name]) => `refs/meta/members/${name}`);
  await repo.work(['push', '--quiet', await repo.at(['admin']), ...refs]);
});

/** What goes in front of `push` to sign as somebody. */
const as = (name: keyof typeof keys): string[] => signingWith(keys[name]);

async function pushPolicy(yaml: string): Promise<void> {
  await commitFileAt(repo.work, 'refs/meta/config', 'policy.yaml', yaml);
  const operator = await repo.at('operator');
  await repo.work([...as('ada'), 'push', '--quiet', '--signed', operator, '+refs/meta/config']);
}

test('the token and the member both have to be let in, for every ref', async () => {
  await pushPolicy(
    'rules: { refs/builds/*: { roles: [worker] }, refs/heads/release/*: { roles: [admin] } }\n',
  );
  const admin = await repo.at(['admin', 'worker']);
  const worker = await repo.at(['read', 'worker']);
  const signed = (name: keyof typeof keys) => ({ config: as(name) });
  await repo.expectRefused(
    admin,
    ['--signed', 'main:refs/builds/1', 'main:refs/heads/x'],
    {
      'refs/builds/1': 'expected the signature of a worker, got that of bob, a writer',
      'refs/heads/x': COMPANY,
    },
    signed('bob'),
  );
  await repo.expectRefused(
    admin,
    ['--signed', 'main:refs/heads/release/1'],
    {
      'refs/heads/release/1': 'expected the signature of an admin, got that of bob, a writer',
    },
    signed('bob'),
  );
  await repo.expectRefused(
    await repo.at(['write']),
    ['--signed', 'main:refs/heads/release/1'],
    {
      'refs/heads/release/1': 'expected a token with admin: refs/heads/release/* is for admins',
    },
    signed('ada'),
  );
  await repo.expectRefused(
    worker,
    ['--signed', 'main:refs/builds/1', 'main:refs/heads/x'],
    {
      'refs/builds/1': COMPANY,
      'refs/heads/x': 'expected a token with write: refs/** is for writers',
    },
    signed('bot'),
  );
  await repo.expectRefused(
    worker,
    ['--signed', 'main:refs/builds/1'],
    {
      'refs/builds/1': 'the push is signed with a key of gone, who was revoked; sign with another',
    },
    signed('gone'),
  );
  await repo.work([...as('bot'), 'push', '--quiet', '--signed', worker, 'main:refs/builds/1']);
  await repo.work([...as('ada'), 'push', '--quiet', '--signed', admin, 'main:refs/heads/release/1']);
});

test('a namespace that a policy makes attested takes signed pushes only, and so does what is pushed with it', async () => {
  await pushPolicy(
    'rules: { refs/heads/**: { attestation: required }, refs/heads/wip/*: { attestation: off } }\n',
  );
  const writer = await repo.at(['write']);
  const reason = 'expected a signed push: git push --signed; refs/heads/** has attestation: required';
  await repo.expectRefused(writer, ['main:refs/heads/x', 'main:refs/heads/wip/x', 'main:refs/tags/x'], {
    'refs/heads/x': reason,
    'refs/heads/wip/x': COMPANY,
    'refs/tags/x': COMPANY,
  });
  // The narrower pattern decides about its own refs.
  await repo.work(['push', '--quiet', writer, 'main:refs/heads/wip/x']);
  const refs = ['main:refs/heads/x', 'main:refs/heads/wip/y'];
  await repo.work([...as('bob'), 'push', '--quiet', '--signed', writer, ...refs]);
});

test('a member list that was lost or cannot be read lets nobody in but an admin of the server', async () => {
  const admin = await repo.at(['admin']);
  const operator = await repo.at('operator');
  const members = [
    'refs/meta/members/ada',
    'refs/meta/members/bob',
    'refs/meta/members/bot',
    'refs/meta/members/gone',
  ];
  for (const [damage, why] of [
    [
      sql`update ${table('ref')} set oid = ${repo.commit} where repo_id = ${repo.repoId} and name = ${members[1]!}`,
      'refs/meta/members/bob: expected a file member.yaml in the commit, got none',
    ],
    [
      sql`delete from ${table('ref')} where repo_id = ${repo.repoId} and name = any(${members})`,
      'nothing is left below refs/meta/members/',
    ],
  ] as const) {
    await repo.damage((db) => damage.execute(db));
    const reason = `nobody can push here: ${why}. An admin of the server has to repair refs/meta/members/ or refs/meta/config`;
    for (const remote of [admin, operator])
      await repo.expectRefused(remote, ['main:refs/heads/x'], { 'refs/heads/x': reason });
    await repo.expectRefused(admin, ['+refs/meta/members/bob'], { 'refs/meta/members/bob': reason });
    await repo.work(['push', '--quiet', operator, ...members.map((name) => `+${name}`)]);
    await repo.work([...as('bob'), 'push', '--quiet', '--signed', admin, 'main:refs/heads/y', '-f']);
  }
});

test('a rule that came while a push was under way holds for it', async () => {
  const { work } = repo;
  const writer = await repo.at(['write']);
  const second = await commitFiles(work, { 'b.txt': 'two' });
  await work(['push', '--quiet', writer, 'main']);
  const forked = await work(['commit-tree', '-p', repo.commit, '-m', 'forked', `${second}^{tree}`]);
  const body = Buffer.concat([
    preamble([
      { old: second, new: forked, name: 'refs/heads/main' },
      { new: forked, name: 'refs/heads/late' },
    ]),
    await packOf(work, forked),
  ]);
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const { username, password, origin, pathname } = new URL(writer);
  const sending = request(`${origin}${pathname}/git-receive-pack`, {
    method: 'POST',
    auth: `${username}:${password}`,
    headers: { 'content-type': 'application/x-git-receive-pack-request' },
    agent: false,
  });
  sending.on('error', reject);
  sending.on('response', (response) => void text(response).then(resolve, reject));
  sending.write(body.subarray(0, -10));
  // Git unpacks by now, so the push was let in.
  const quarantine = `${repo.pusher.folder}/data/repos/*/*/objects/tmp_objdir-incoming-*`;
  await vi.waitFor(() => expect(globSync(quarantine)).toHaveLength(1), { timeout: 20_000, interval: 20 });
  await pushPolicy('rules: { refs/heads/*: { force: false } }\n');
  sending.end(body.subarray(-10));
  const report = reportOf({ status: 200, headers: {}, text: Buffer.from(await promise).toString('latin1') });
  expect(report).toContain(
    'ng refs/heads/main expected a fast-forward: refs/heads/* has force: false, since just now; push again\n',
  );
  expect(report).toContain(`ng refs/heads/late ${COMPANY}\n`);
  expect(await repo.refs()).toMatchObject({ 'refs/heads/main': second });
});

test('a push that waits for the policy to be committed is judged by it', async () => {
  const { pusher, work } = repo;
  const operator = await repo.at('operator');
  const other = await pusher.start({ SLUICE_ACCOUNTS: 'required', SLUICE_TOKEN: 'the-operator' });
  const writer = await repo.at(['write'], other.url);
  const yaml = 'rules: { refs/heads/**: { roles: [admin] } }\n';
  await commitFileAt(work, 'refs/meta/config', 'policy.yaml', yaml);
  await using gate = await closeCommitGate(pusher.database.db);
  const policy = work([...as('ada'), 'push', '--quiet', '--signed', operator, 'refs/meta/config']);
  await gate.reached();
  const late = work.attempt(['push', writer, 'main:refs/heads/late']);
  // It was let in by the policy that still holds, and waits for the lock on the repository.
  await vi.waitFor(
    async () => {
      const { rows } = await sql`select 1 from pg_stat_activity where wait_event_type = 'Lock'
        and datname = current_database() and query like '%for update%'`.execute(pusher.database.db);
      expect(rows).toHaveLength(1);
    },
    { timeout: 20_000, interval: 20 },
  );
  await gate.open();
  await policy;
  expect((await late).stderr).toContain('expected a token with admin: refs/heads/** is for admins');
  expect(Object.keys(await repo.refs())).not.toContain('refs/heads/late');
});
