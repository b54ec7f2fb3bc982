import { createDatabase, SCHEMA, table } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { claimEffects } from '../src/claim-effects.ts';
import { dispatcherComplete } from '../src/dispatcher-complete.ts';
import { dispatcherFail } from '../src/dispatcher-fail.ts';
import { enqueueEffects } from '../src/enqueue-effects.ts';
import { findEffect } from '../src/find-effect.ts';
import { recordOp } from '../src/record-op.ts';
import { queueByRepo } from '../src/queue-by-repo.ts';
import { dispatcherRequeueStale } from '../src/requeue-stale.ts';
import { claimSome, emptyQueue, fillQueue } from './fill-queue.ts';

const database = useTestDatabase();
beforeEach(() => emptyQueue(database.db));

test.each([
  { cap: 10, open: 9, got: 1 },
  { cap: 9, open: 10, got: 0 },
  { cap: 100, open: 99, got: 1 },
  { cap: 99, open: 100, got: 0 },
])('a cap of $cap is compared with $open open claims as a number', async ({ cap, open, got }) => {
  const { db } = database;
  await fillQueue(db, 'a', open + 5);
  await claimSome(db, 'a', open);
  await db.insertInto('repo').values({ repo_id: 'a', cap }).execute();
  expect(await claimEffects(db, { repoId: 'a', claimedBy: 'w', limit: 5 })).toHaveLength(got);
});

test('counts are numbers, and their order is that of numbers', async () => {
  const { db } = database;
  for (const count of [9, 10, 100]) await fillQueue(db, `r${count}`, count);
  const repos = await queueByRepo(db, { limit: 10 });
  const waiting = repos.map((repo) => repo.waiting);
  expect(waiting.every((count) => typeof count === 'number')).toBe(true);
  expect(waiting.toSorted((a, b) => a - b)).toEqual([9, 10, 100]);
});

test('a duplicate changes nothing about the effect that is there', async () => {
  const { db } = database;
  const first = { repoId: 'a', payload: '{"v":1}', name: 'n', priority: 3, dedupKey: 'k' };
  const other = { repoId: 'a', payload: '{"v":2}', name: 'm', priority: 9, delayMs: 60_000, dedupKey: 'k' };
  const [one] = await enqueueEffects(db, [first]);
  const [two] = await enqueueEffects(db, [other]);
  expect(two).toMatchObject({ status: 'duplicate', effectId: one!.effectId });
  expect(await claimSome(db, 'a', 9)).toMatchObject([{ payload: '{"v":1}', name: 'n' }]);
  expect(await findEffect(db, one!.effectId)).toMatchObject({ priority: 3, runAt: null });
});

describe('in a zone that is not a whole number of hours from UTC', () => {
  const before = process.env['TZ'];
  afterEach(() => {
    if (before === undefined) delete process.env['TZ'];
    else process.env['TZ'] = before;
  });

  test('the process means the same instant as the database', async () => {
    process.env['TZ'] = 'America/St_Johns';
    expect(new Date('2030-01-01T00:00:00Z').getTimezoneOffset()).toBe(210);
    await using db = createDatabase({
      connectionString: `${database.url}?options=-c%20timezone%3DAsia/Shanghai`,
      applicationName: 'test',
    });
    const runAt = new Date('2999-12-31T23:59:59.123Z');
    const { rows } = await sql<{ now: Date }>`select now()`.execute(db);
    const soon = new Date(rows[0]!.now.getTime() + 3_600_000);
    const past = new Date(rows[0]!.now.getTime() - 3_600_000);
    for (const at of [runAt, soon]) {
      const [one] = await enqueueEffects(db, [{ repoId: 'a', payload: '', runAt: at }]);
      expect(await findEffect(db, one!.effectId)).toMatchObject({ state: 'scheduled', runAt: at });
    }
    const [due] = await enqueueEffects(db, [{ repoId: 'a', payload: '', runAt: past }]);
    expect((await claimSome(db, 'a', 9)).map((effect) => effect.effectId)).toEqual([due!.effectId]);
    // By the row's own value, not by way of a Date on either side.
    const stored = await sql<{ text: string }>`
      select to_char(run_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS') as text
        from ${table('effect_queue')} where run_at is not null order by run_at desc limit 1`.execute(db);
    expect(stored.rows).toEqual([{ text: '2999-12-31 23:59:59.123' }]);
  });
});

test('where another schema comes first and has tables of the same names, only our own are touched', async () => {
  const { db: admin } = database;
  await sql`create schema shadow`.execute(admin);
  const { rows } = await sql<{ name: string }>`select relname as name from pg_class
    where relnamespace = ${SCHEMA}::text::regnamespace and relkind in ('r', 'p', 'v')`.execute(admin);
  expect(rows.length).toBeGreaterThan(10);
  for (const { name } of rows)
    await sql`create table ${sql.id('shadow', name)} (decoy integer)`.execute(admin);
  for (const path of ['shadow', '', `shadow,${SCHEMA}`]) {
    await emptyQueue(admin);
    await using db = createDatabase({
      connectionString: `${database.url}?options=-c%20search_path%3D${path}`,
      applicationName: 'test',
    });
    await db.insertInto('repo').values({ repo_id: 'a', cap: 9, max_queued: 9 }).execute();
    const [one] = await enqueueEffects(db, [
      { repoId: 'a', payload: '1', dedupKey: 'k', concurrencyGroup: 'g', supersede: true },
      { repoId: 'a', payload: '2' },
    ]);
    expect(await findEffect(db, one!.effectId)).toMatchObject({ state: 'enqueued' });
    const [first, second] = await claimSome(db, 'a', 9);
    expect(await dispatcherComplete(db, first!)).toBe('completed');
    expect(await dispatcherFail(db, { claim: second!, error: 'why', retryInMs: 1 })).toBe('scheduled');
    expect(await dispatcherRequeueStale(db, { olderThanMs: 0 })).toBe(0);
    expect(await recordOp(db, { repoId: 'a', opOid: 'a'.repeat(40) })).toBe(1n);
    expect(await queueByRepo(db, { limit: 9 })).toMatchObject([{ repoId: 'a', scheduled: 1 }]);
    await db.deleteFrom('op_record').execute();
  }
  await sql`drop schema shadow cascade`.execute(admin);
});
