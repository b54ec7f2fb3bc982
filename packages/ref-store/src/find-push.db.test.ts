import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { beforeAll, expect, test } from 'vitest';
import { newKey, oid, push } from '../test/push-fixture.ts';
import { commitPush } from './commit-push.ts';
import { findPush } from './find-push.ts';
import { lockRepo } from './lock-repo.ts';
import type { ServerKey } from './server-key.ts';

const database = useTestDatabase();
let key: ServerKey;
beforeAll(async () => {
  key = await newKey();
});

test('a push is found with its edits, in its own repository only', async () => {
  const { db } = database;
  const outcome = await push(db, {
    repoId: 'find/me',
    key,
    edits: [{ name: 'refs/heads/main', expect: 'any', to: oid(1) }],
  });
  const pushId = outcome.status === 'committed' ? outcome.pushId : '';
  const found = await findPush(db, { repoId: 'find/me', pushId });
  expect(found).toMatchObject({ pushId, seq: 1n, parent: null, signer: 'alice' });
  expect(found!.applied).toEqual([{ name: 'refs/heads/main', oldOid: null, newOid: oid(1) }]);
  expect(await findPush(db, { repoId: 'find/other', pushId })).toBeUndefined();
  expect(await findPush(db, { repoId: 'find/me', pushId: oid(9) })).toBeUndefined();
});

test.each([
  ['a push is still being written', 'commits', false, true],
  ['a push is still being written', 'rolls back', false, false],
  ['a first push is still being written', 'commits', true, true],
  ['a first push is still being written', 'rolls back', true, false],
])('while %s it waits until that %s', async (_what, _how, isFirst, commits) => {
  const { db } = database;
  const repoId = `find/unknown-${isFirst}-${commits}`;
  if (!isFirst)
    await push(db, { repoId, key, edits: [{ name: 'refs/heads/main', expect: 'any', to: oid(1) }] });
  const trx = await db.startTransaction().execute();
  const announced: string[] = [];
  const repo = await lockRepo(trx, { repoId, create: { objectFormat: 'sha1' } });
  const edits = [{ name: 'refs/heads/main', expect: 'any', to: oid(2) }];
  const outcome = await commitPush(trx, {
    repo: repo!,
    edits,
    signer: null,
    key,
    onPushId: (id) => announced.push(id),
  });
  expect(outcome).toMatchObject({ status: 'committed', pushId: announced[0] });
  const finding = findPush(db, { repoId, pushId: announced[0]! });
  await expect
    .poll(
      async () =>
        (
          await sql`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`.execute(
            db,
          )
        ).rows.length,
      { timeout: 20_000 },
    )
    .toBe(1);
  if (commits) await trx.commit().execute();
  else await trx.rollback().execute();
  const found = await finding;
  if (commits) expect(found).toMatchObject({ pushId: announced[0], seq: isFirst ? 1n : 2n });
  else expect(found).toBeUndefined();
  const there = await db.selectFrom('repo').select('repo_id').where('repo_id', '=', repoId).execute();
  expect(there).toHaveLength(isFirst && !commits ? 0 : 1);
});
