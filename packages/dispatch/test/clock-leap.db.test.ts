import { createDatabase, type DB } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql, type Kysely } from 'kysely';
import { expect, test } from 'vitest';
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
  const { db, leap } = await withLeapingClock();
  await using _ = db;
  await enqueue(db, ['a', 'b'], 2);
  const mayEnd = Promise.withResolvers<void>();
  let runs = 0;
  // Hearts that do not beat before everybody has judged everybody.
  const options = { db, slots: 2, beatMs: 5_000, leaseMs: 20_000 };
  const run = async () => {
    runs += 1;
    await mayEnd.promise;
    return PASS;
  };
  const dispatchers = [await start(run, options), await start(run, options)];
  await until('all run', () => runs === 4);
  await leap('1 hour');
  for (const dispatcher of dispatchers) {
    const noticed = () => dispatcher.of('database_clock_leapt').some(({ aheadMs }) => aheadMs > 3_590_000);
    await until('it notices', noticed);
  }
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
