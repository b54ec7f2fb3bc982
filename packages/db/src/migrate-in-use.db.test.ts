import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test, vi } from 'vitest';
import { migrate, migrateDown } from './migrate.ts';
import { table } from './schema.ts';

const database = useTestDatabase();
const WAIT = { timeout: 20_000, interval: 20 };

/** Sessions that wait for a lock on a table. */
async function waiting(): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from pg_locks
     where not granted and locktype = 'relation'
       and database = (select oid from pg_database where datname = current_database())`.execute(database.db);
  return rows[0]!.count;
}

test('a migration that a long reader holds up lets everybody else pass, and is done when the reader is', async () => {
  const { db } = database;
  const reader = await db.startTransaction().execute();
  await reader.selectFrom('effect_queue').selectAll().execute();
  const changing = migrateDown(db);
  changing.catch(() => undefined);
  await vi.waitFor(async () => expect(await waiting()).toBe(1), WAIT);
  // It comes behind the one that waits for the reader, and the reader does not end before it.
  await sql`insert into ${table('effect_queue')} (repo_id, payload) values ('a', 'x')`.execute(db);
  await reader.commit().execute();
  expect((await changing).length).toBeGreaterThan(0);
  expect((await migrate(db)).length).toBeGreaterThan(0);
});

test('a migration that fails throws its own error and leaves no lock behind', async () => {
  const { db } = database;
  await sql`create view public.depends as select effect_id from ${table('effect_queue')}`.execute(db);
  await expect(migrateDown(db)).rejects.toMatchObject({ code: '2BP01' });
  const { rows } = await sql`select objid from pg_locks where locktype = 'advisory'
    and database = (select oid from pg_database where datname = current_database())`.execute(db);
  expect(rows).toEqual([]);
  await sql`drop view public.depends`.execute(db);
  expect((await migrateDown(db)).length).toBeGreaterThan(0);
  expect((await migrate(db)).length).toBeGreaterThan(0);
});
