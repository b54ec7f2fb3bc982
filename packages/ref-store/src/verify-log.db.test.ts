import { execFileSync } from 'node:child_process';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { table } from '@sluice/db';
import { makeTempFolder, useTestDatabase } from '@sluice/testkit';
import { sql, type RawBuilder } from 'kysely';
import { beforeAll, expect, onTestFinished, test, vi } from 'vitest';
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

/** Makes a program of these lines the only ssh-keygen; `$REAL` is the one that was there. */
async function replaceSshKeygen(lines: string): Promise<string> {
  const real = execFileSync('/bin/sh', ['-c', 'command -v ssh-keygen'], { encoding: 'utf8' }).trim();
  const folder = makeTempFolder();
  const file = join(folder.path, 'ssh-keygen');
  await writeFile(file, `#!/bin/sh\nREAL=${real}\nFOLDER=${folder.path}\n${lines}\n`);
  await chmod(file, 0o755);
  vi.stubEnv('PATH', `${folder.path}:${process.env['PATH']}`);
  onTestFinished(() => {
    vi.unstubAllEnvs();
    folder[Symbol.dispose]();
  });
  return folder.path;
}

test('whether a signature is good is for ssh-keygen to say, and only for it', async () => {
  const pushIds = await makeLog('log/judge');
  await replaceSshKeygen('exit 255');
  expect((await verify('log/judge')).problems).toEqual(
    pushIds.map((pushId) => ({ pushId, problem: 'the signature does not match the record' })),
  );
  await replaceSshKeygen('exit 1');
  await expect(verify('log/judge')).rejects.toMatchObject({ code: 'ssh_keygen_unusable' });
});

test('eight ssh-keygens run at once, and never more', async () => {
  for (let n = 1; n <= 20; n++) {
    const edits = [{ name: `refs/heads/b${n}`, expect: 'any', to: oid(1) }];
    await push(database.db, { repoId: 'log/many', key, edits });
  }
  // The first eight wait for each other, and those after them give a ninth the time to begin.
  const folder = await replaceSshKeygen(`echo start >>$FOLDER/log
    while [ $(grep -c start $FOLDER/log) -lt 8 ]; do sleep 0.02; done
    $REAL "$@"; code=$?
    sleep 0.05
    echo end >>$FOLDER/log
    exit $code`);
  expect(await verify('log/many')).toEqual({ records: 20, problems: [] });
  let running = 0;
  let most = 0;
  for (const line of (await readFile(join(folder, 'log'), 'utf8')).trim().split('\n')) {
    running += line === 'start' ? 1 : -1;
    most = Math.max(most, running);
  }
  expect([running, most]).toEqual([0, 8]);
});

test('no snapshot is held while signatures are checked, and a log that changes meanwhile is not whole', async () => {
  const [, , newest] = await makeLog('log/meanwhile');
  const inTransaction: number[] = [];
  const check = await verifyLog(database.db, {
    repoId: 'log/meanwhile',
    trustedKeys: [{ publicKey: key.publicKey, retiredAt: null }],
    alsoCheck: async (_db, { pushId }) => {
      if (pushId === newest)
        await sql`delete from ${table('op_record')} where push_id = ${newest}`.execute(database.db);
      return [];
    },
    alsoSigned: async (db) => {
      const { rows } = await sql<{ pid: number }>`
        select pid from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'`.execute(
        db,
      );
      inTransaction.push(rows.length);
      return ['also'];
    },
  });
  expect(inTransaction).toEqual([0, 0]);
  expect(check.problems.map(({ problem }) => problem)).toEqual([
    'also',
    'also',
    '3 pushes were read, but then the signatures of 2: the log was changed meanwhile',
  ]);
});

test('problems of rows and of signatures are told in the order of the log', async () => {
  const [first, second, third] = await makeLog('log/order');
  await sql`update ${table('op_record')} set signer = 'mallory' where push_id in (${first}, ${third})`.execute(
    database.db,
  );
  await sql`update ${table('op_record')} set body = set_byte(body, 60, 33) where push_id = ${second}`.execute(
    database.db,
  );
  await sql`delete from ${table('ref')} where repo_id = 'log/order'`.execute(database.db);
  expect((await verify('log/order')).problems).toEqual([
    { pushId: first, problem: 'its signer differs from the signed one' },
    { pushId: second, problem: 'the bytes do not hash to the push id' },
    { pushId: third, problem: 'its signer differs from the signed one' },
    { pushId: null, problem: 'refs/heads/a is missing; the log says it exists' },
    { pushId: null, problem: 'refs/tags/caf\u00e9 is missing; the log says it exists' },
  ]);
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
