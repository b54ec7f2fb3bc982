import { createDatabase, SCHEMA, table } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { afterEach, expect, test } from 'vitest';
import { enqueue, names, PASS, useDispatchers } from './dispatchers.ts';
import { until } from './until.ts';

const database = useTestDatabase();
const start = useDispatchers(database);

const cleanups: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

test('a completion that runs into the statement timeout is sent again while the heart beats, and counts once', async () => {
  const { db, url } = database;
  await enqueue(db, ['a'], 1);
  const own = createDatabase({
    connectionString: `${url}?options=-c%20statement_timeout%3D200ms`,
    applicationName: 'hasty',
  });
  cleanups.push(() => own.destroy());
  const mayEnd = Promise.withResolvers<void>();
  let runs = 0;
  const dispatcher = await start(
    async () => {
      runs += 1;
      await mayEnd.promise;
      return PASS;
    },
    { db: own, beatMs: 50 },
  );
  await until('it runs', () => dispatcher.stats.running === 1);
  const beatOf = async () =>
    (await db.selectFrom('dispatcher').select('heartbeat_at').executeTakeFirstOrThrow()).heartbeat_at;
  await db.transaction().execute(async (holder) => {
    await holder.selectFrom('effect_claim').select('effect_id').forUpdate().execute();
    await holder.selectFrom('effect_queue').select('effect_id').forUpdate().execute();
    mayEnd.resolve();
    await until('it was refused twice', () => dispatcher.of('completion_delayed').length >= 2);
    const before = await beatOf();
    await until('the heart goes on', async () => (await beatOf()) > before);
  });
  await until('it is stored', () => dispatcher.stats.completed === 1);
  await dispatcher.idle();
  expect(runs).toBe(1);
  expect(dispatcher.stats).toMatchObject({ completed: 1, stale: 0, retried: 0 });
  const rows = await db.selectFrom('effect_history').select(['state', 'attempts']).execute();
  expect(rows).toEqual([{ state: 'done', attempts: 1 }]);
  // Its own stop is a statement too, and has nothing to wait for.
  await dispatcher.stop();
});

test('a server that has no room for its connections is asked again until it has', async () => {
  const { db, url } = database;
  const role = `crowded_${new URL(url).pathname.slice(1)}`.slice(0, 60);
  await sql`create role ${sql.id(role)} login password ${sql.lit(role)}`.execute(db);
  cleanups.push(async () => {
    await sql`drop owned by ${sql.id(role)}`.execute(db);
    await sql`drop role ${sql.id(role)}`.execute(db);
  });
  await sql`grant usage on schema ${sql.id(SCHEMA)} to ${sql.id(role)}`.execute(db);
  await sql`grant all on all tables in schema ${sql.id(SCHEMA)} to ${sql.id(role)}`.execute(db);
  await sql`grant all on all sequences in schema ${sql.id(SCHEMA)} to ${sql.id(role)}`.execute(db);
  const theirs = new URL(url);
  theirs.username = role;
  theirs.password = role;
  const own = createDatabase({
    connectionString: theirs.href,
    applicationName: 'crowded',
    connectionsMax: 3,
    connectTimeoutMs: 2_000,
  });
  cleanups.push(() => own.destroy());
  const sessions = async () =>
    (
      await sql<{
        count: number;
      }>`select count(*)::int as count from pg_stat_activity where usename = ${role}`.execute(db)
    ).rows[0]!.count;
  let most = 0;
  const dispatcher = await start(
    async () => {
      most = Math.max(most, await sessions());
      return PASS;
    },
    { db: own, beatMs: 50 },
  );
  await sql`alter role ${sql.id(role)} connection limit 0`.execute(db);
  await sql`select pg_terminate_backend(pid) from pg_stat_activity where usename = ${role}`.execute(db);
  await enqueue(db, names(10), 2);
  const reasons = () => dispatcher.of('heartbeat_failed').map(({ error }) => String(error));
  await until('it is turned away', () => reasons().some((reason) => reason.includes('too many connections')));
  // Whoever looks after the server still gets in.
  expect((await db.selectFrom('effect_queue').select('effect_id').execute()).length).toBe(20);
  await sql`alter role ${sql.id(role)} connection limit 3`.execute(db);
  await until('all have run', () => dispatcher.stats.completed === 20);
  expect(most).toBeLessThanOrEqual(3);
  const rows = await sql`select from ${table('effect_history')} where attempts <> 1`.execute(db);
  expect(rows.rows).toEqual([]);
  await dispatcher.stop();
});
