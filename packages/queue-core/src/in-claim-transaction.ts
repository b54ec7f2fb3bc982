import { inBoundedTransaction, type DB } from '@sluice/db';
import { sql, type Kysely, type Transaction } from 'kysely';

/** Runs a claim in a bounded transaction. One of the caller's own goes on with the plan setting that it had before. */
export async function inClaimTransaction<T>(
  db: Kysely<DB>,
  run: (trx: Transaction<DB>) => Promise<T>,
): Promise<T> {
  if (!db.isTransaction) return await inBoundedTransaction(db, run);
  const { rows } = await sql<{ value: string }>`select current_setting('enable_bitmapscan') as value`.execute(
    db,
  );
  try {
    return await run(db as Transaction<DB>);
  } finally {
    // After an error of the database there is nothing to put back: the transaction can only be rolled back.
    await sql`select set_config('enable_bitmapscan', ${rows[0]?.value}, true)`
      .execute(db)
      .catch(() => undefined);
  }
}
