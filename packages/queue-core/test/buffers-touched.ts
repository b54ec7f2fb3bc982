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

/**
 * Runs an operation, takes it back, and says how many rows and index entries all its statements together read, those
 * inside functions included, and which tables were read whole.
 */
export async function rowsRead(
  db: Kysely<DB>,
  run: (trx: Transaction<DB>) => Promise<unknown>,
): Promise<{ rows: number; readWhole: string[] }> {
  const trx = await db.startTransaction().execute();
  try {
    const before = await readSoFar(trx);
    await run(trx);
    const after = await readSoFar(trx);
    const scans = (counts: Counts, name: string): number => counts.scans[name] ?? 0;
    return {
      rows: after.rows - before.rows,
      readWhole: Object.keys(after.scans).filter((name) => scans(after, name) > scans(before, name)),
    };
  } finally {
    await trx.rollback().execute();
  }
}

interface Counts {
  rows: number;
  /** Sequential scans of each table. */
  scans: Record<string, number>;
}

async function readSoFar(trx: Transaction<DB>): Promise<Counts> {
  const { rows } = await sql<Counts>`
    select coalesce(sum(pg_stat_get_xact_tuples_returned(oid)), 0)::int as rows,
           jsonb_object_agg(relname, pg_stat_get_xact_numscans(oid)) filter (where relkind = 'r') as scans
      from pg_class where relnamespace = ${SCHEMA}::regnamespace and relkind in ('r', 'i')`.execute(trx);
  return rows[0]!;
}

/** Counted by this session; earlier transactions may be among it, but none is taken off before this one ends. */
async function fetchedSoFar(trx: Transaction<DB>): Promise<number> {
  const { rows } = await sql<{ blocks: number }>`
    select coalesce(sum(pg_stat_get_xact_blocks_fetched(oid)), 0)::int as blocks
      from pg_class where relnamespace = ${SCHEMA}::regnamespace and relkind in ('r', 'i')`.execute(trx);
  return rows[0]!.blocks;
}
