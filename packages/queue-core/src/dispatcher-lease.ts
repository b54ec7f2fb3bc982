import { inBoundedTransaction, table, type DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import { assertText, assertWhole, invalid, isDispatcherId } from './assert-argument.ts';
import { assertReadCommitted, claimantKey } from './turn-lock.ts';

export interface NewDispatcher {
  host: string;
  pid: number;
  /** Most effects it runs at once. */
  slots: number;
  /** Without a heartbeat for this long it counts as dead, and its claims go to others. */
  leaseMs: number;
}

const INT_MAX = 2 ** 31 - 1;

/** Makes a process known as alive and returns its dispatcher id: the name to claim under, never used again. */
export async function registerDispatcher(db: Kysely<DB>, dispatcher: NewDispatcher): Promise<string> {
  assertText('host', dispatcher.host, 300);
  assertWhole('pid', dispatcher.pid, 0, INT_MAX);
  assertWhole('slots', dispatcher.slots, 1, INT_MAX);
  assertWhole('leaseMs', dispatcher.leaseMs, 1, INT_MAX);
  const { dispatcher_id } = await db
    .insertInto('dispatcher')
    .values({
      host: dispatcher.host,
      pid: dispatcher.pid,
      slots: dispatcher.slots,
      lease_ms: dispatcher.leaseMs,
    })
    .returning('dispatcher_id')
    .executeTakeFirstOrThrow();
  return dispatcher_id;
}

/**
 * Keeps every claim of the dispatcher, however old. `declared_dead`: another one took its claims away; it must stop
 * what it runs and register anew. By the database clock; a late heartbeat that comes before anyone noticed still counts.
 */
export async function heartbeat(db: Kysely<DB>, dispatcherId: string): Promise<'alive' | 'declared_dead'> {
  assertDispatcherId(dispatcherId);
  const updated = await db
    .updateTable('dispatcher')
    .set({ heartbeat_at: sql<Date>`clock_timestamp()` })
    .where('dispatcher_id', '=', dispatcherId)
    .executeTakeFirst();
  return updated.numUpdatedRows > 0n ? 'alive' : 'declared_dead';
}

/** Ends a dispatcher in good order. Claims that it still has go back to the queue with no attempt spent. */
export async function unregisterDispatcher(db: Kysely<DB>, dispatcherId: string): Promise<void> {
  assertDispatcherId(dispatcherId);
  await inBoundedTransaction(db, async (trx) => {
    await trx.deleteFrom('dispatcher').where('dispatcher_id', '=', dispatcherId).execute();
    // A claim of its own may be under way; it is waited for, and later ones find that the registration is gone.
    const { rows } = await sql<{ isolation: string }>`
      select current_setting('transaction_isolation') as isolation,
             pg_advisory_xact_lock(${claimantKey(dispatcherId)})::text`.execute(trx);
    assertReadCommitted(rows[0]?.isolation);
    await sql`delete from ${table('effect_claim')}
      where effect_id = any(array(select effect_id from ${table('effect_claim')}
                                      where claimant = ${dispatcherId} order by effect_id for update))`.execute(
      trx,
    );
  });
}

/** Says whether the dispatcher wants to hear of each new effect: an enqueue sends a notification only while one does. */
export async function setSleeping(db: Kysely<DB>, dispatcherId: string, isSleeping: boolean): Promise<void> {
  assertDispatcherId(dispatcherId);
  await db
    .updateTable('dispatcher')
    .set({ is_sleeping: isSleeping })
    .where('dispatcher_id', '=', dispatcherId)
    .where('is_sleeping', '!=', isSleeping)
    .execute();
}

function assertDispatcherId(value: unknown): void {
  if (isDispatcherId(value)) return;
  throw invalid('dispatcherId', 'an id that registerDispatcher returned', value, 'Register first.');
}
