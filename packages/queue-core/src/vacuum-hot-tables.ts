import { SCHEMA, table, type DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';

/** Tables whose rows live for seconds, so that their size is what vacuum has not yet returned. */
export const HOT_TABLES = ['effect_queue', 'effect_claim', 'effect_dedup'] as const;
export type HotTable = (typeof HOT_TABLES)[number];

/** Dead rows of each hot table, as the statistics of the server count them: a second late, and free to ask. */
export async function countDeadRows(db: Kysely<DB>): Promise<Map<HotTable, number>> {
  const { rows } = await sql<{ name: HotTable; dead: number }>`
    select name, pg_stat_get_dead_tuples(format('%I.%I', ${SCHEMA}::text, name)::regclass)::float8 as dead
      from unnest(${HOT_TABLES}::text[]) as name`.execute(db);
  return new Map(rows.map(({ name, dead }) => [name, dead]));
}

/**
 * Makes the space of a table's dead rows free for new ones. Disturbs nobody: it waits for no lock, leaves the table alone
 * if somebody vacuums it already, and does not shorten the file, which would keep everybody out for a moment; autovacuum
 * does that. Not within a transaction. A role that does not own the table changes nothing.
 */
export async function vacuumHotTable(db: Kysely<DB>, name: HotTable): Promise<void> {
  await sql`vacuum (skip_locked, truncate false, parallel 0) ${table(name)}`.execute(db);
}
