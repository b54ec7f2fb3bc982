import { createDatabase, migrate, type DB } from '@sluice/db';
import { startPgBouncer, useEmptyDatabase, type PgBouncer } from '@sluice/testkit';
import { sql, type Kysely } from 'kysely';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { enqueue, names, PASS, useDispatchers } from './dispatchers.ts';
import { until } from './until.ts';

const database = useEmptyDatabase();
const start = useDispatchers(database);
let pgBouncer: PgBouncer | undefined;
const opened: Kysely<DB>[] = [];

function open(): Kysely<DB> {
  const db = createDatabase({
    connectionString: pgBouncer!.url,
    applicationName: 'test pooled',
    pooler: 'transaction',
  });
  opened.push(db);
  return db;
}

beforeAll(async () => {
  pgBouncer = await startPgBouncer(database.url);
});

afterAll(async () => {
  await Promise.all(opened.map((db) => db.destroy()));
  await pgBouncer?.[Symbol.asyncDispose]();
});

test('several processes that migrate at once through the pooler take turns, and leave no lock', async () => {
  const all = [open(), open(), open()];
  const applied = await Promise.all(all.map((db) => migrate(db)));
  expect(applied.filter((steps) => steps.length > 0)).toHaveLength(1);
  expect((await Promise.all(all.map((db) => migrate(db)))).flat()).toEqual([]);
  const { rows } = await sql`
    select objid from pg_locks where locktype = 'advisory'
       and database = (select oid from pg_database where datname = current_database())`.execute(database.db);
  expect(rows).toEqual([]);
});

test('connections that the pooler loses and replaces lose no effect and run none twice', async () => {
  const { db } = database;
  await migrate(db);
  await enqueue(db, names(10), 20);
  const runs: bigint[] = [];
  const dispatchers = await Promise.all(
    [1, 2, 3].map(() =>
      start(
        async ({ effectId }) => {
          runs.push(effectId);
          return await Promise.resolve(PASS);
        },
        { db: open() },
      ),
    ),
  );
  const completed = () => dispatchers.reduce((sum, { stats }) => sum + stats.completed, 0);
  for (const count of [40, 80, 120]) {
    await until(`${count} are done`, () => completed() >= count);
    await sql`select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and application_name = 'test pooled'`.execute(db);
  }
  await until('all are in history', async () => {
    const rows = await db.selectFrom('effect_history').select('effect_id').execute();
    return rows.length === 200;
  });
  expect(new Set(runs).size).toBe(200);
  expect(runs).toHaveLength(200);
  const prepared = dispatchers.flatMap(({ events }) =>
    events.flatMap((event) => ('error' in event ? [String(event.error)] : [])),
  );
  expect(prepared.filter((text) => text.includes('prepared statement'))).toEqual([]);
  await Promise.all(dispatchers.map((dispatcher) => dispatcher.idle()));
});
