import { sql, type Kysely } from 'kysely';

/** Settings of the server under which a crash of its machine may lose or spoil what was committed; most have none. */
export async function unsafeSettings<DB>(db: Kysely<DB>): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`
    select name from pg_settings where name in ('fsync', 'full_page_writes') and setting = 'off' order by name`.execute(
    db,
  );
  return rows.map(({ name }) => name);
}
