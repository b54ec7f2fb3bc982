import { useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { insertEffect, insertQuery } from './insert-effect.ts';

const database = useTestDatabase();

test('writes neither effect nor key where a key is in force or the repo has a limit', async () => {
  await database.db.insertInto('repo').values({ repo_id: 'i/limited', max_queued: 9 }).execute();
  const effect = { repoId: 'i/1', payload: 'x', dedupKey: 'k' };
  const first = await insertEffect(database.db, effect);
  expect(first).toEqual(expect.any(BigInt));
  expect(await insertEffect(database.db, effect)).toBeUndefined();
  expect(await insertEffect(database.db, { ...effect, repoId: 'i/limited' })).toBeUndefined();
  expect(await insertEffect(database.db, { repoId: 'i/limited', payload: 'x' })).toBeUndefined();
  const effects = await database.db.selectFrom('effect_queue').select(['effect_id', 'dedup_key']).execute();
  expect(effects).toEqual([{ effect_id: first, dedup_key: 'k' }]);
  const keys = await database.db.selectFrom('effect_dedup').select(['repo_id', 'effect_id']).execute();
  expect(keys).toEqual([{ repo_id: 'i/1', effect_id: first }]);
});

test('the statement, as it is sent', () => {
  const { sql, parameters } = insertQuery({ repoId: 'r', payload: 'p' });
  expect(sql.replace(/\s+/g, ' ').trim()).toMatchInlineSnapshot(
    `"/* prepared */ insert into "sluice"."effect_queue" as q (effect_id, repo_id, name, payload, priority, max_attempts, run_at, dedup_key, concurrency_group, push_id) select nextval('sluice.effect_id_seq'), $1, $2, $3, $4::smallint, $5::integer, null::timestamptz, $6, $7, $8 where (select r.max_queued from "sluice"."repo" r where r.repo_id = $1) is null returning effect_id::text, case when q.run_at is null and exists (select from "sluice"."dispatcher" d where d.is_sleeping and d.dispatcher_id <> all($9::uuid[])) then pg_notify('sluice_effects', q.effect_id || ' ' || q.repo_id)::text end as told"`,
  );
  expect(parameters).toEqual(['r', '', 'p', 0, 3, null, null, null, []]);
});
