import { table } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test, vi } from 'vitest';
import { newKey, oid, push } from '../test/push-fixture.ts';
import { lockForPush, type LockedForPush } from './lock-for-push.ts';
import { refsQuery } from './read-refs.ts';
import type { RefEdit } from './ref-edit.ts';

const database = useTestDatabase();
const edits: RefEdit[] = [{ name: 'refs/heads/a', expect: 'any', to: oid(2) }];

async function lock(repoId: string, create?: { objectFormat: 'sha1' }): Promise<LockedForPush> {
  return await database.db.transaction().execute(async (trx) => {
    const after = [refsQuery(trx, repoId, { prefix: 'refs/heads/' }).compile()];
    const before = [sql`select set_config('lock_timeout', '20s', true)`.compile(trx)];
    return await lockForPush(trx, { repoId, create, edits, before, after });
  });
}

test('what is read after the lock is what the lock waited for', async () => {
  const { db } = database;
  await push(db, { repoId: 'lock/one', key: await newKey(), edits: [{ ...edits[0]!, to: oid(1) }] });
  const other = await db.startTransaction().execute();
  await sql`select from ${table('repo')} where repo_id = 'lock/one' for update`.execute(other);
  const waiting = lock('lock/one');
  await vi.waitFor(
    async () => {
      const { rows } = await sql`select from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock'`.execute(db);
      expect(rows).toHaveLength(1);
    },
    { timeout: 15_000, interval: 20 },
  );
  await sql`update ${table('ref')} set oid = ${oid(3)} where repo_id = 'lock/one'`.execute(other);
  await other.commit().execute();
  const { repo, named, rows } = await waiting;
  expect(repo).toMatchObject({ repoId: 'lock/one', isNew: false, opSeq: 1n });
  expect(named.current).toEqual(new Map([['refs/heads/a', oid(3)]]));
  expect(rows).toEqual([[{ name: 'refs/heads/a', oid: oid(3) }]]);
});

test('a repository is made if it may be, and is new to nobody else', async () => {
  expect((await lock('lock/two')).repo).toBeUndefined();
  expect(await lock('lock/two', { objectFormat: 'sha1' })).toMatchObject({
    repo: { isNew: true, opSeq: 0n },
    named: { current: new Map() },
    rows: [[]],
  });
  expect((await lock('lock/two', { objectFormat: 'sha1' })).repo).toMatchObject({ isNew: false });
});
