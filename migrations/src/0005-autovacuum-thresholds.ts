import { sql, type Kysely } from 'kysely';

/**
 * Dispatchers vacuum the hot tables while they are busy; autovacuum, once a minute at most, is left to shorten files that
 * a long backlog made long, and to look after a queue that nobody is busy with. With a threshold of thousands of dead
 * rows, those that were left when a backlog ended would often not have called it.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await set(db, 100);
}

export async function down(db: Kysely<unknown>): Promise<void> {
  await set(db, 5_000);
}

async function set(db: Kysely<unknown>, threshold: number): Promise<void> {
  for (const name of ['effect_queue', 'effect_claim', 'effect_dedup', 'dispatcher'])
    await sql`alter table ${sql.table(name)} set (autovacuum_vacuum_threshold = ${sql.lit(threshold)})`.execute(
      db,
    );
}
