import { SCHEMA } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { enqueue, names, PASS, useDispatchers } from './dispatchers.ts';
import { until } from './until.ts';

const database = useTestDatabase();
const start = useDispatchers(database);

test('two dispatchers run the effects of twenty repos exactly once', async () => {
  const { db } = database;
  await enqueue(db, names(20), 15);
  const runs: string[] = [];
  const run = async ({ payload }: { payload: string }) => {
    runs.push(payload);
    await Promise.resolve();
    return PASS;
  };
  const both = await Promise.all([start(run), start(run)]);
  await Promise.all(both.map((dispatcher) => dispatcher.idle()));
  expect(runs).toHaveLength(300);
  expect(new Set(runs).size).toBe(300);
  const done = await db.selectFrom('effect_history').select(['state', 'outcome', 'attempts']).execute();
  expect(done).toHaveLength(300);
  expect(
    done.filter(({ state, outcome, attempts }) => state !== 'done' || outcome !== 'pass' || attempts !== 1),
  ).toEqual([]);
  expect(await db.selectFrom('effect_claim').selectAll().execute()).toEqual([]);
  const [one, two] = both.map(({ stats }) => stats.completed);
  expect(one! + two!).toBe(300);
});

test('outcome, reason and result ref are stored as the run gave them', async () => {
  const { db } = database;
  await enqueue(db, ['a'], 1);
  const dispatcher = await start(() =>
    Promise.resolve({
      status: 'done',
      outcome: 'fail',
      reason: 'exit code 3',
      resultRef: 'refs/meta/results/x/1',
    }),
  );
  await dispatcher.idle();
  const row = await db
    .selectFrom('effect_history')
    .select(['state', 'outcome', 'reason', 'result_ref'])
    .executeTakeFirst();
  expect(row).toEqual({
    state: 'done',
    outcome: 'fail',
    reason: 'exit code 3',
    result_ref: 'refs/meta/results/x/1',
  });
});

test('work that arrives later is found, and a scheduled effect runs when it is due', async () => {
  const { db } = database;
  const runs: string[] = [];
  const dispatcher = await start(async ({ payload }) => {
    runs.push(payload);
    return await Promise.resolve(PASS);
  });
  await dispatcher.idle();
  await enqueue(db, ['later'], 1, { payload: 'scheduled', delayMs: 3_600_000 });
  await enqueue(db, ['now'], 1, { payload: 'immediate' });
  await until('the immediate one has run', () => runs.length === 1);
  await db
    .updateTable('effect_queue')
    .set({ run_at: sql<Date>`clock_timestamp() + interval '200 ms'` })
    .execute();
  await until('the scheduled one has run', () => runs.length === 2);
  expect(runs).toEqual(['immediate', 'scheduled']);
});

test('a paused repo gives nothing until it is resumed; others go on', async () => {
  const { db } = database;
  await db.insertInto('repo').values({ repo_id: 'paused', paused_at: new Date() }).execute();
  await enqueue(db, ['paused', 'other'], 3);
  const runs: string[] = [];
  await start(async ({ repoId }) => {
    runs.push(repoId);
    return await Promise.resolve(PASS);
  });
  await until('the other repo is served', () => runs.length === 3);
  expect(runs).toEqual(['other', 'other', 'other']);
  await db.updateTable('repo').set({ paused_at: null }).execute();
  await until('the resumed repo is served', () => runs.length === 6);
});

test('a run that completed its claim itself is left alone', async () => {
  const { db } = database;
  await enqueue(db, ['a'], 1);
  const dispatcher = await start(async (effect) => {
    await db.deleteFrom('effect_queue').where('effect_id', '=', effect.effectId).execute();
    return { status: 'settled' };
  });
  await dispatcher.idle();
  expect(dispatcher.of('effect_ended')).toMatchObject([{ how: 'settled' }]);
  expect(await db.selectFrom('effect_history').selectAll().execute()).toEqual([]);
});

test('a row under an impossible repo id is reported and holds up no other', async () => {
  const { db } = database;
  await db.insertInto('effect_queue').values({ repo_id: 'not a repo id', payload: '' }).execute();
  await enqueue(db, ['a'], 3);
  const dispatcher = await start(() => Promise.resolve(PASS));
  await until('the others have run', () => dispatcher.stats.completed === 3);
  await until('it is reported', () => dispatcher.of('repo_refused').length > 0);
  expect(dispatcher.of('repo_refused')[0]).toEqual({ name: 'repo_refused', repoId: 'not a repo id' });
  expect(dispatcher.of('claim_failed')).toEqual([]);
});

test('partitions for the coming days are made at the start', async () => {
  const dispatcher = await start(() => Promise.resolve(PASS));
  await until('it has seen to them', () => dispatcher.of('partitions_maintained').length === 1);
  const { rows } = await sql`
    select 1 from pg_inherits where inhparent = ${`${SCHEMA}.effect_history`}::text::regclass`.execute(
    database.db,
  );
  expect(rows.length).toBeGreaterThanOrEqual(5);
});

test.each([
  [{ slots: 0 }, 'slots: expected a whole number from 1 to 100000, got 0'],
  [{ repoCap: 1.5 }, 'repoCap: expected a whole number from 1 to 100000, got 1.5'],
  [{ pollMs: Number.NaN }, 'pollMs: expected a whole number'],
  [{ beatMs: 5_000, leaseMs: 5_000 }, 'leaseMs: expected at least two beats of 5000 ms, got 5000'],
])('%o is refused', async (options, message) => {
  await expect(start(() => Promise.resolve(PASS), options)).rejects.toThrow(message);
});
