import { SCHEMA, type DB } from '@sluice/db';
import { sql, type Kysely, type Transaction } from 'kysely';

/**
 * Runs an operation, takes it back, and says how many pages of tables and indexes all its statements together touched,
 * whether these were in memory or not: what EXPLAIN (ANALYZE, BUFFERS) calls shared hit and read.
 */
export async function buffersTouched(
  db: Kysely<DB>,
  run: (trx: Transaction<DB>) => Promise<unknown>,
): Promise<number> {
  const trx = await db.startTransaction().execute();
  try {
    const before = await fetchedSoFar(trx);
    await run(trx);
    return (await fetchedSoFar(trx)) - before;
  } finally {
    await trx.rollback().execute();
  }
}

/** Counted by this session; earlier transactions may be among it, but none is taken off before this one ends. */
async function fetchedSoFar(trx: Transaction<DB>): Promise<number> {
  const { rows } = await sql<{ blocks: number }>`
    select coalesce(sum(pg_stat_get_xact_blocks_fetched(oid)), 0)::int as blocks
      from pg_class where relnamespace = ${SCHEMA}::regnamespace and relkind in ('r', 'i')`.execute(trx);
  return rows[0]!.blocks;
}
