import { sql, type Kysely, type Transaction } from 'kysely';
import { PREPARED } from './prepared.ts';

/**
 * Runs inside the given transaction, or in one of its own when `db` is not one: READ COMMITTED, whatever the server's
 * default. Unlike `db.transaction()`, what it throws is the first error: on a lost connection the rollback fails as well,
 * and its error would hide the cause.
 */
export async function inTransaction<DB, T>(
  db: Kysely<DB>,
  run: (trx: Transaction<DB>) => Promise<T>,
): Promise<T> {
  if (db.isTransaction) return await run(db as Transaction<DB>);
  const trx = await db.startTransaction().setIsolationLevel('read committed').execute();
  try {
    const result = await run(trx);
    await trx.commit().execute();
    return result;
  } catch (error) {
    // A failed rollback discards the connection, so there is nothing left to do about it.
    await trx
      .rollback()
      .execute()
      .catch(() => undefined);
    throw error;
  }
}

/** First statement of a bounded transaction. */
export const BOUNDS = sql`${PREPARED}select set_config('lock_timeout', '5s', true),
       set_config('idle_in_transaction_session_timeout', '10s', true)`;

/**
 * Like {@link inTransaction}, for a transaction that takes locks others need: PostgreSQL ends it when it waits more
 * than 5 s for a lock or when this process stands still for 10 s in the middle, so a frozen process holds up nobody.
 * A transaction of the caller's own is left as it is: its bounds are the caller's.
 */
export async function inBoundedTransaction<DB, T>(
  db: Kysely<DB>,
  run: (trx: Transaction<DB>) => Promise<T>,
): Promise<T> {
  if (db.isTransaction) return await run(db as Transaction<DB>);
  return await inTransaction(db, async (trx) => {
    await BOUNDS.execute(trx);
    return await run(trx);
  });
}
