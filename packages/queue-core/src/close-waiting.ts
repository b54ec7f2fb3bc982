import { table, type DB } from '@sluice/db';
import { sql, type Transaction } from 'kysely';

/**
 * Moves waiting effects to history, each with its reason, and frees their dedup keys. Returns the ids that were moved:
 * what is claimed, finished or another repo's stays as it is. The caller holds the turn locks of the repos since an
 * EARLIER statement, so that no claim is being made of what is closed here.
 */
export async function closeWaiting(
  trx: Transaction<DB>,
  closing: {
    repoIds: readonly string[];
    state: 'cancelled' | 'superseded';
    reasons: ReadonlyMap<bigint, string>;
  },
): Promise<bigint[]> {
  if (closing.reasons.size === 0) return [];
  const reasons = JSON.stringify(Object.fromEntries(closing.reasons));
  const { rows } = await sql<{ effect_id: string }>`
    with removed as (
      delete from ${table('effect_queue')} q
       where q.effect_id = any(${[...closing.reasons.keys()]}::bigint[])
         and q.repo_id = any(${closing.repoIds}::text[])
         and q.effect_id not in (select c.effect_id from ${table('effect_claim')} c
                                  where c.repo_id = any(${closing.repoIds}::text[]))
      returning q.*
    ), kept as (
      insert into ${table('effect_history')}
             (effect_id, repo_id, name, payload, state, reason, priority, attempts, max_attempts, dedup_key,
              concurrency_group, push_id, enqueued_at)
      select effect_id, repo_id, name, payload, ${closing.state}, ${reasons}::jsonb ->> effect_id::text, priority,
             attempts, max_attempts, dedup_key, concurrency_group, push_id, enqueued_at
        from removed
    ), freed as (
      delete from ${table('effect_dedup')} k
       where k.effect_id = any(array(select effect_id from removed where dedup_key is not null))
    )
    select effect_id::text from removed order by removed.effect_id`.execute(trx);
  return rows.map((row) => BigInt(row.effect_id));
}
