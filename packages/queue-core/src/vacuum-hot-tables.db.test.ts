import { createDatabase, table, type DB } from '@sluice/db';
import { untilRemovable, useTestDatabase } from '@sluice/testkit';
import { sql, type Kysely } from 'kysely';
import { beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { emptyQueue, fillQueue } from '../test/fill-queue.ts';
import { countDeadRows, HOT_TABLES, vacuumHotTable } from './vacuum-hot-tables.ts';

const ROWS = 10_000;
const database = useTestDatabase();

beforeAll(async () => {
  for (const name of HOT_TABLES)
    await sql`alter table ${table(name)} set (autovacuum_enabled = false)`.execute(database.db);
});

beforeEach(() => emptyQueue(database.db));

/** Leaves dead rows behind, and waits until the statistics know of them and nobody sees them any more. */
async function die(db: Kysely<DB>): Promise<void> {
  await fillQueue(db, 'a', ROWS);
  await db.deleteFrom('effect_queue').execute();
  await vi.waitUntil(async () => (await deadRows(db)) >= ROWS, { timeout: 20_000, interval: 50 });
  await untilRemovable(db);
}

async function deadRows(db: Kysely<DB>): Promise<number> {
  return (await countDeadRows(db)).get('effect_queue')!;
}

async function fileBytes(db: Kysely<DB>): Promise<number> {
  const { rows } = await sql<{ bytes: number }>`
    select pg_relation_size('sluice.effect_queue')::int as bytes`.execute(db);
  return rows[0]!.bytes;
}

test('the space of dead rows is used again, and the file is neither longer nor shorter', async () => {
  const { db } = database;
  await die(db);
  expect([...(await countDeadRows(db)).keys()].sort()).toEqual([...HOT_TABLES].sort());
  const before = await fileBytes(db);
  await vacuumHotTable(db, 'effect_queue');
  // A connection tells of the few rows that it deleted before up to ten seconds late.
  expect(await deadRows(db)).toBeLessThan(100);
  expect(await fileBytes(db)).toBe(before);
  await fillQueue(db, 'a', ROWS);
  expect(await fileBytes(db)).toBeLessThan(1.1 * before);
});

test('a table that somebody vacuums already is left alone, and not waited for', async () => {
  const { db } = database;
  await die(db);
  await db.transaction().execute(async (other) => {
    await sql`lock table ${table('effect_queue')} in share update exclusive mode`.execute(other);
    await vacuumHotTable(db, 'effect_queue');
    expect(await deadRows(db)).toBeGreaterThanOrEqual(ROWS);
  });
});

test('a role that does not own the table changes nothing', async () => {
  const { db } = database;
  await die(db);
  const role = sql.id(`guest_${process.pid}`);
  await sql`create role ${role}`.execute(db);
  await sql`grant usage on schema sluice to ${role}`.execute(db);
  try {
    const options = { connectionString: database.url, applicationName: 'guest', connectionsMax: 1 };
    await using guest = createDatabase(options);
    await sql`set role ${role}`.execute(guest);
    await vacuumHotTable(guest, 'effect_queue');
    expect(await deadRows(guest)).toBeGreaterThanOrEqual(ROWS);
  } finally {
    await sql`revoke usage on schema sluice from ${role}`.execute(db);
    await sql`drop role ${role}`.execute(db);
  }
});
