import { table } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql, type RawBuilder } from 'kysely';
import { beforeAll, expect, test } from 'vitest';
import { newKey, oid, push } from '../test/push-fixture.ts';
import type { ServerKey } from './server-key.ts';
import { verifyLog } from './verify-log.ts';

const database = useTestDatabase();
let key: ServerKey;
beforeAll(async () => {
  key = await newKey();
});

/** Three pushes: two branches, then a tag and an update, then a removal with a certificate. */
async function makeLog(repoId: string): Promise<string[]> {
  const edit = (name: string, to: string | null) => ({ name, expect: 'any', to });
  const outcomes = [
    await push(database.db, {
      repoId,
      key,
      edits: [edit('refs/heads/a', oid(1)), edit('refs/heads/b', oid(1))],
    }),
    await push(database.db, {
      repoId,
      key,
      edits: [edit('refs/tags/caf\u00e9', oid(2)), edit('refs/heads/a', oid(2))],
    }),
    await push(database.db, {
      repoId,
      key,
      edits: [edit('refs/heads/b', null)],
      certificate: Buffer.from(repoId),
    }),
  ];
  return outcomes.map((outcome) => (outcome.status === 'committed' ? outcome.pushId : ''));
}

const verify = (repoId: string, keys = [key.publicKey]) =>
  verifyLog(database.db, {
    repoId,
    trustedKeys: keys.map((publicKey) => ({ publicKey, retiredAt: null })),
  });

test('a log that nobody touched is whole', async () => {
  await makeLog('log/whole');
  expect(await verify('log/whole')).toEqual({ records: 3, problems: [] });
  expect(await verify('log/none')).toEqual({ records: 0, problems: [] });
});

test('a key that is not trusted is named at every record', async () => {
  const pushIds = await makeLog('log/key');
  const other = await newKey();
  const problem = 'the record is signed by a key that is not trusted';
  expect((await verify('log/key', [other.publicKey])).problems).toEqual(
    pushIds.map((pushId) => ({ pushId, problem })),
  );
});

test('what a key signed before it was retired is good, and nothing after', async () => {
  const pushIds = await makeLog('log/retired');
  const minute = 60_000;
  const at = (ms: number) =>
    verifyLog(database.db, {
      repoId: 'log/retired',
      trustedKeys: [{ publicKey: key.publicKey, retiredAt: new Date(Date.now() + ms) }],
    });
  expect((await at(minute)).problems).toEqual([]);
  expect((await at(-minute)).problems).toEqual(
    pushIds.map((pushId) => ({ pushId, problem: expect.stringMatching(/a key that was retired at/) })),
  );
});

type Tampering = (repoId: string, pushIds: string[]) => RawBuilder<unknown>;

test.each<[string, Tampering, number | null, RegExp]>([
  [
    'a ref moved',
    (repo) =>
      sql`update ${table('ref')} set oid = ${oid(9)} where repo_id = ${repo} and name = 'refs/heads/a'`,
    null,
    /value of refs\/heads\/a/,
  ],
  [
    'a ref removed',
    (repo) => sql`delete from ${table('ref')} where repo_id = ${repo} and name = 'refs/heads/a'`,
    null,
    /refs\/heads\/a is missing/,
  ],
  [
    'a ref added',
    (repo) => sql`insert into ${table('ref')} values (${repo}, 'refs/heads/evil', ${oid(9)})`,
    null,
    /refs\/heads\/evil/,
  ],
  [
    'a reflog row changed',
    (_, ids) =>
      sql`update ${table('reflog')} set new_oid = ${oid(9)} where push_id = ${ids[1]} and name = 'refs/heads/a'`,
    1,
    /edits or certificate differ/,
  ],
  [
    'the signer changed',
    (_, ids) => sql`update ${table('op_record')} set signer = 'mallory' where push_id = ${ids[0]}`,
    0,
    /signer differs/,
  ],
  [
    'a byte of the signature changed',
    (_, ids) =>
      sql`update ${table('op_record')} set signature = overlay(signature placing '!' from 60) where push_id = ${ids[0]}`,
    0,
    /signature differs/,
  ],
  [
    'the time changed',
    (_, ids) =>
      sql`update ${table('op_record')} set created_at = created_at - interval '2s' where push_id = ${ids[2]}`,
    2,
    /its time differs/,
  ],
  [
    'the time of an edit changed',
    (_, ids) =>
      sql`update ${table('reflog')} set created_at = created_at + interval '2s' where push_id = ${ids[1]} and name = 'refs/heads/a'`,
    1,
    /time of its edit of refs\/heads\/a/,
  ],
  [
    'a reflog row given away',
    (_, ids) =>
      sql`update ${table('reflog')} set push_id = (select push_id from ${table('op_record')} where repo_id = 'log/whole' limit 1)
          where push_id = ${ids[1]} and name = 'refs/heads/a'`,
    null,
    /edit of refs\/heads\/a by [0-9a-f]{40}, which is no push/,
  ],
  [
    'the certificate changed',
    (_, ids) => sql`update ${table('op_record')} set cert_oid = ${oid(9)} where push_id = ${ids[2]}`,
    2,
    /edits or certificate differ/,
  ],
  [
    'a byte of a record changed',
    (_, ids) => sql`update ${table('op_record')} set body = set_byte(body, 60, 33) where push_id = ${ids[1]}`,
    1,
    /do not hash/,
  ],
  [
    'a record removed',
    (_, ids) => sql`delete from ${table('op_record')} where push_id = ${ids[1]}`,
    2,
    /expected number 2, got 3: push [0-9a-f]{40}/,
  ],
  [
    'the newest record removed',
    (_, ids) => sql`delete from ${table('op_record')} where push_id = ${ids[2]}`,
    null,
    /should be number 3, push [0-9a-f]{40}, but number 2/,
  ],
])('%s is found', async (what, tamper, index, problem) => {
  const repoId = `log/${what.replaceAll(' ', '-')}`;
  const pushIds = await makeLog(repoId);
  await tamper(repoId, pushIds).execute(database.db);
  const check = await verify(repoId);
  expect(check.problems).toContainEqual({
    pushId: index === null ? null : pushIds[index],
    problem: expect.stringMatching(problem),
  });
});

test("another repository's record does not pass", async () => {
  const [theirs] = await makeLog('log/theirs');
  await makeLog('log/ours');
  await sql`delete from ${table('op_record')} where repo_id = 'log/ours'`.execute(database.db);
  await sql`update ${table('op_record')} set repo_id = 'log/ours' where push_id = ${theirs}`.execute(
    database.db,
  );
  expect((await verify('log/ours')).problems).toContainEqual({
    pushId: theirs,
    problem: 'it was made for the repository log/theirs',
  });
});
