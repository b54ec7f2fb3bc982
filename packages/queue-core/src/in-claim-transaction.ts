import { inBoundedTransaction, type DB } from '@sluice/db';
import { sql, type Kysely, type Transaction } from 'kysely';

/** What claims set, for the rest of their transaction, to fix how they are planned. */
const SETTINGS = ['enable_seqscan', 'enable_bitmapscan', 'jit'];

/** Runs a claim in a bounded transaction. One of the caller's own goes on with the settings that it had before. */
export async function inClaimTransaction<T>(
  db: Kysely<DB>,
  run: (trx: Transaction<DB>) => Promise<T>,
): Promise<T> {
  if (!db.isTransaction) return await inBoundedTransaction(db, run);
  const { rows } = await sql<{ name: string; value: string }>`
    select name, current_setting(name) as value from unnest(${SETTINGS}::text[]) as name`.execute(db);
  try {
    return await run(db as Transaction<DB>);
  } finally {
    // After an error of the database there is nothing to put back: the transaction can only be rolled back.
    await sql`
      select set_config(name, value, true)
        from unnest(${rows.map((row) => row.name)}::text[], ${rows.map((row) => row.value)}::text[]) as kept (name, value)`
      .execute(db)
      .catch(() => undefined);
  }
}
