import { table } from '@sluice/db';
import { commitFileAt, makeKey, signingWith, type SigningKey } from '@sluice/testkit';
import { sql } from 'kysely';
import { beforeEach, expect, test, vi } from 'vitest';
import { closeCommitGate } from './commit-gate.ts';
import { COMPANY, useGovernedRepo } from './use-governed-repo.ts';

const repo = useGovernedRepo();

let keys: Record<'ada' | 'bob' | 'eve', SigningKey>;
/** The repository's URL, for an admin who is none of the server. */
let admin: string;

/** Makes ada an admin and bob a writer. */
beforeEach(async () => {
  const key = (name: string): SigningKey => makeKey(repo.pusher.folder, name);
  keys = { ada: key('ada'), bob: key('bob'), eve: key('eve') };
  admin = await repo.at(['admin']);
  await setMember('ada', 'admin', [keys.ada.publicKey]);
  await setMember('bob', 'writer', [keys.bob.publicKey]);
  await repo.work(['push', '--quiet', admin, refOf('ada'), refOf('bob')]);
});

const refOf = (name: string): string => `refs/meta/members/${name}`;
const cutOff = ({ publicKey }: SigningKey): string =>
  `${publicKey.split(' ')[0]} ${publicKey.split(' ')[1]!.slice(0, -4)}`;

/** Makes a member in the clone. */
async function setMember(name: string, role: string, lines: string[], isRevoked = false): Promise<string> {
  const yaml = `role: ${role}\nrevoked: ${isRevoked}\nkeys:\n${lines.map((line) => `  - ${line}\n`).join('')}`;
  return await commitFileAt(repo.work, refOf(name), 'member.yaml', yaml);
}

/** Puts a member there as servers of before took it. */
async function store(name: string, role: string, lines: string[]): Promise<void> {
  const oid = await setMember(name, role, lines);
  await repo.work(['push', '--quiet', admin, `+${oid}:refs/x/${name}`]);
  await repo.damage((db) =>
    sql`update ${table('ref')} set oid = ${oid} where repo_id = ${repo.repoId} and name = ${refOf(name)}`.execute(
      db,
    ),
  );
}

/** Pushes members as ada, or has to be refused. */
async function take(...names: string[]): Promise<void> {
  const refs = names.map((name) => `+${refOf(name)}`);
  await repo.work([...signingWith(keys.ada), 'push', '--quiet', '--signed', admin, ...refs]);
}
async function refused(reasons: Record<string, string>): Promise<void> {
  const names = Object.keys(reasons);
  const expected = Object.fromEntries(names.map((name) => [refOf(name), reasons[name]!]));
  const refs = names.map((name) => `+${refOf(name)}`);
  await repo.expectRefused(admin, ['--signed', ...refs], expected, { config: signingWith(keys.ada) });
}

test('keys that are cut off or of somebody else are refused, each with its reason', async () => {
  const { ada, bob, eve } = keys;
  await setMember('bob', 'writer', [bob.publicKey, cutOff(eve)]);
  await setMember('eve', 'writer', [ada.publicKey]);
  await setMember('joe', 'writer', [eve.publicKey]);
  await refused({
    bob: 'expected a whole SSH public key, got one that is cut off or was changed: key 2 of 2 in member.yaml. Take its line from the .pub file once more',
    eve: 'expected a key of nobody else, got that of ada, and nobody could tell who signed: key 1 of 1 in member.yaml. Take another key',
    joe: COMPANY,
  });
  await take('joe');
});

test('first members are judged by their keys as well', async () => {
  const other = (await repo.at('operator')).replace(repo.repoId, `${repo.repoId}-other`);
  await setMember('ada', 'admin', [cutOff(keys.ada)]);
  const pushed = await repo.work.attempt(['push', other, refOf('ada'), refOf('bob')]);
  expect(pushed.stderr).toContain('expected a whole SSH public key');
  const made = repo.pusher.database.db
    .selectFrom('repo')
    .select('repo_id')
    .where('repo_id', 'like', '%-other');
  expect(await made.execute()).toEqual([]);
});

test('the last admin who can sign stays, until somebody else is one', async () => {
  const { ada, bob, eve } = keys;
  const reason =
    'expected an admin with a key that counts among the members after this push, got none: nobody could sign for members, policy or effects any more. Make somebody else an admin first, or in the same push';
  await setMember('ada', 'writer', [ada.publicKey]);
  await refused({ ada: reason });
  await setMember('ada', 'admin', [ada.publicKey], true);
  await refused({ ada: reason });
  await setMember('lost', 'writer', [ada.publicKey], true);
  await refused({ lost: reason });
  await setMember('bob', 'admin', [bob.publicKey]);
  await take('ada', 'bob');
  await repo.work([...signingWith(bob), 'push', '--quiet', '--signed', admin, 'refs/meta/effects/ci']);
  await setMember('eve', 'writer', [eve.publicKey]);
  await repo.work([...signingWith(bob), 'push', '--quiet', '--signed', admin, refOf('eve')]);
});

test('a member who was revoked is not taken back, by whatever push', async () => {
  const { bob, eve } = keys;
  await setMember('bob', 'writer', [bob.publicKey], true);
  await take('bob');
  const reason =
    'expected revoked: true, as before: nobody comes back under the name of a member who was revoked. Add a member of another name, with a new key';
  await setMember('bob', 'writer', [bob.publicKey], false);
  await refused({ bob: reason });
  await setMember('bob', 'writer', [eve.publicKey], false);
  await refused({ bob: reason });
  await setMember('eve', 'writer', [eve.publicKey]);
  await take('eve');
});

test('of two pushes at once that leave one admin each, the second is refused', async () => {
  const { ada, bob } = keys;
  await setMember('bob', 'admin', [bob.publicKey]);
  await take('bob');
  await setMember('ada', 'writer', [ada.publicKey]);
  await setMember('bob', 'writer', [bob.publicKey]);
  const demote = (name: string) =>
    repo.work.attempt([...signingWith(ada), 'push', '--signed', admin, `+${refOf(name)}`]);
  await using gate = await closeCommitGate(repo.pusher.database.db);
  const first = demote('bob');
  await gate.reached();
  const { url } = await repo.pusher.start({ SLUICE_ACCOUNTS: 'required' });
  admin = await repo.at(['admin'], url);
  const second = demote('ada');
  // It was let in while there were two admins, and waits for the lock on the repository.
  await vi.waitFor(
    async () => {
      const { rows } = await sql`select 1 from pg_stat_activity where wait_event_type = 'Lock'
        and datname = current_database() and query like '%for update%'`.execute(repo.pusher.database.db);
      expect(rows).toHaveLength(1);
    },
    { timeout: 20_000, interval: 20 },
  );
  await gate.open();
  expect((await first).code).toBe(0);
  expect((await second).stderr).toContain('expected an admin with a key that counts among the members');
});

test('what servers of before took keeps nobody from improving it', async () => {
  const { ada, bob, eve } = keys;
  await store('bob', 'writer', [bob.publicKey, ada.publicKey, cutOff(eve)]);
  await setMember('bob', 'worker', [bob.publicKey, ada.publicKey, cutOff(eve)]);
  await take('bob');
  await setMember('bob', 'worker', [bob.publicKey, cutOff(eve), eve.publicKey]);
  await take('bob');
  await setMember('bob', 'worker', [eve.publicKey]);
  await take('bob');
});

test('members of whom no admin can sign are repaired by an admin of the server, while branches go on', async () => {
  const { ada, bob, eve } = keys;
  await store('ada', 'admin', [cutOff(ada)]);
  await repo.work(['push', '--quiet', await repo.at(['write']), 'main:refs/heads/x']);
  await repo.work([...signingWith(bob), 'push', '--quiet', '--signed', admin, 'main:refs/heads/y']);
  await setMember('ada', 'admin', [ada.publicKey]);
  const unsigned =
    'expected a signed push: git push --signed; refs/meta/members/** has attestation: required';
  await repo.expectRefused(admin, [`+${refOf('ada')}`], { [refOf('ada')]: unsigned });
  const operator = await repo.at('operator');
  // One step after the other: what does not help yet is taken as well.
  await setMember('bob', 'worker', [bob.publicKey]);
  await repo.work(['push', '--quiet', operator, `+${refOf('bob')}`]);
  await repo.work(['push', '--quiet', operator, `+${refOf('ada')}`]);
  await setMember('eve', 'writer', [eve.publicKey]);
  await repo.expectRefused(operator, [refOf('eve')], { [refOf('eve')]: unsigned });
  await take('eve');
});

test.each([
  ['ten thousand members', 10_000],
  ['more, which servers of before took,', 20_000],
])('of %s one can be changed, and no other be made', async (_, count) => {
  await repo.damage((db) =>
    sql`insert into ${table('ref')} (repo_id, name, oid)
      select repo_id, ${refOf('m')} || i, oid from ${table('ref')}, generate_series(1, ${count - 2}::integer) as i
      where repo_id = ${repo.repoId} and name = ${refOf('bob')}`.execute(db),
  );
  await setMember('eve', 'writer', [keys.eve.publicKey]);
  await refused({
    eve: `expected at most 10000 members in a repository, got ${count + 1} with this push; give its keys to a member who is there, who may have 50`,
  });
  await setMember('bob', 'writer', [keys.bob.publicKey], true);
  await take('bob');
});

test('the files of members have a limit together, comments included, and whoever makes them less is let in', async () => {
  const comments = (count: number): string => `# ${'x'.repeat(998)}\n`.repeat(count);
  const long = async (count: number): Promise<string> => {
    const yaml = `role: worker\nkeys:\n  - ${keys.eve.publicKey}\n${comments(count)}`;
    return await commitFileAt(repo.work, refOf('long1'), 'member.yaml', yaml);
  };
  // As servers of before took them.
  await repo.work(['push', '--quiet', admin, `${await long(60)}:refs/x/long`]);
  await repo.damage((db) =>
    sql`insert into ${table('ref')} (repo_id, name, oid)
      select repo_id, ${refOf('long')} || i, oid from ${table('ref')}, generate_series(1, 141) as i
      where repo_id = ${repo.repoId} and name = 'refs/x/long'`.execute(db),
  );
  await setMember('zoe', 'writer', [makeKey(repo.pusher.folder, 'zoe').publicKey]);
  await refused({
    zoe: expect.stringMatching(
      /^expected at most 8388608 bytes in all files of members together, got 84\d+ with this push; take comments out/,
    ) as string,
  });
  await long(59);
  await take('long1');
});
