import { SCHEMA, type DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';

/**
 * Keeps what is in every table now; the function that it returns puts it back, as a standby that had received no more
 * than that and is promoted.
 */
export async function saveDatabase(db: Kysely<DB>): Promise<() => Promise<void>> {
  const { rows } = await sql<{ name: string }>`select relname::text as name from pg_class
    where relnamespace = ${SCHEMA}::regnamespace and relkind in ('r', 'p') and not relispartition`.execute(
    db,
  );
  const tables = rows.map(({ name }) => ({ live: sql.id(SCHEMA, name), saved: sql.id('saved', name) }));
  await sql`create schema saved`.execute(db);
  for (const { live, saved } of tables) await sql`create table ${saved} as table ${live}`.execute(db);
  return async () => {
    await db.transaction().execute(async (trx) => {
      await sql`set local session_replication_role = replica`.execute(trx);
      await sql`truncate ${sql.join(tables.map(({ live }) => live))} cascade`.execute(trx);
      for (const { live, saved } of tables)
        await sql`insert into ${live} overriding system value select * from ${saved}`.execute(trx);
    });
    await sql`drop schema saved cascade`.execute(db);
  };
}
