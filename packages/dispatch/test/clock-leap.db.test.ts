import { createDatabase, type DB } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql, type Kysely } from 'kysely';
import { expect, test } from 'vitest';
import { systemClock } from '../src/clock.ts';
import { enqueue, PASS, useDispatchers } from './dispatchers.ts';
import { until } from './until.ts';

const database = useTestDatabase();
const start = useDispatchers(database);

/** A database whose clock a test can set forward: ours and its own functions of the time, found first, add to it. */
async function withLeapingClock(): Promise<{ db: Kysely<DB>; leap: (interval: string) => Promise<void> }> {
  const { db } = database;
  await sql`create schema if not exists leaping`.execute(db);
  await sql`create table leaping.ahead as select interval '0' as by`.execute(db);
  for (const name of ['clock_timestamp', 'statement_timestamp', 'now']) {
    await sql`create function ${sql.id('leaping', name)}() returns timestamptz language sql as
      ${sql.lit(`select pg_catalog.${name}() + by from leaping.ahead`)}`.execute(db);
  }
  const url = new URL(database.url);
  url.searchParams.set('options', '-c search_path=leaping,pg_catalog');
  return {
    db: createDatabase({ connectionString: url.href, applicationName: 'leaping' }),
    leap: async (interval) => {
      await sql`update leaping.ahead set by = ${interval}::interval`.execute(db);
    },
  };
}

test('when the clock of the database is set forward, nobody alive is declared dead, and what runs runs once', async () => {
  const BEAT_MS = 5_000;
  let aheadMs = 0;
  const clock = { ...systemClock, now: () => systemClock.now() + aheadMs };
  const { db, leap } = await withLeapingClock();
  await using _ = db;
  await enqueue(db, ['a', 'b'], 2);
  const mayEnd = Promise.withResolvers<void>();
  let runs = 0;
  // Hearts that do not beat before everybody has judged everybody.
  const options = { db, clock, slots: 2, beatMs: BEAT_MS, leaseMs: 20_000 };
  const run = async () => {
    runs += 1;
    await mayEnd.promise;
    return PASS;
  };
  const dispatchers = [await start(run, options), await start(run, options)];
  await until('all run', () => runs === 4);
  const untilNoticed = async (count: number) => {
    for (const dispatcher of dispatchers) {
      const leaps = () => dispatcher.of('database_clock_leapt');
      await until('it notices', () => leaps().length === count);
      expect(leaps().at(-1)!.aheadMs).toBeGreaterThan(3_580_000);
    }
  };
  // In their first seconds, in which they judge nobody, and later.
  await leap('1 hour');
  await untilNoticed(1);
  aheadMs = 2 * BEAT_MS;
  await leap('2 hours');
  await untilNoticed(2);
  const { registered } = await db
    .selectFrom('dispatcher')
    .select((eb) => eb.cast<number>(eb.fn.countAll(), 'integer').as('registered'))
    .executeTakeFirstOrThrow();
  expect(registered).toBe(2);
  mayEnd.resolve();
  for (const dispatcher of dispatchers) await dispatcher.stop();
  expect(runs).toBe(4);
  expect(dispatchers.flatMap((dispatcher) => dispatcher.of('dispatcher_declared_dead'))).toEqual([]);
  const rows = await db.selectFrom('effect').select(['state', 'attempts']).distinct().execute();
  expect(rows).toEqual([{ state: 'done', attempts: 1 }]);
});
