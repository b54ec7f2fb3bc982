import { CHANNELS, PREPARED, table, type DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import type { NewEffect } from './new-effect.ts';
import { nextEffectId } from './sequences.ts';

/**
 * Appends one effect and returns its id; `undefined`, having written nothing, if its dedup key is in force or its repo
 * limits what may wait. Most enqueues are of this kind and alone in their transaction, where PostgreSQL spends more on
 * planning than on the insert: this statement is planned in two thirds of the time of the one for batches. A notification
 * goes out with it, if somebody sleeps: one after it would cost a second commit.
 */
export async function insertEffect(db: Kysely<DB>, effect: NewEffect): Promise<bigint | undefined> {
  const { rows } = await insertOneStatement(effect).execute(db);
  const [row] = rows;
  return row === undefined ? undefined : BigInt(row.effect_id);
}

/** The statement behind {@link insertEffect}. */
export function insertOneStatement(effect: NewEffect) {
  const {
    repoId,
    name = '',
    payload,
    priority = 0,
    maxAttempts = 3,
    dedupKey,
    concurrencyGroup,
    pushId,
  } = effect;
  const isUnlimited = sql`(select r.max_queued from ${table('repo')} r where r.repo_id = ${repoId}) is null`;
  const values = sql`${repoId}, ${name}, ${payload}, ${priority}::smallint, ${maxAttempts}::integer, ${runAt(effect)},
         ${dedupKey ?? null}, ${concurrencyGroup ?? null}, ${pushId ?? null}`;
  const isKeyed = dedupKey !== undefined;
  const key = isKeyed
    ? sql`key as (
      insert into ${table('effect_dedup')} (repo_id, dedup_key, effect_id, is_retained)
      select ${repoId}, ${dedupKey}, ${nextEffectId}, ${effect.retainDedupKey ?? false}::boolean where ${isUnlimited}
          on conflict (repo_id, dedup_key) do nothing
      returning effect_id
    ), `
    : sql``;
  return sql<{ effect_id: bigint | string }>`${PREPARED}with ${key}kept as (
      insert into ${table('effect_queue')}
             (effect_id, repo_id, name, payload, priority, max_attempts, run_at, dedup_key, concurrency_group, push_id)
      ${isKeyed ? sql`select key.effect_id, ${values} from key` : sql`select ${nextEffectId}, ${values} where ${isUnlimited}`}
      returning effect_id, repo_id, run_at
    )
    select effect_id,
           case when run_at is null and exists (select from ${table('dispatcher')} d where d.is_sleeping)
                then pg_notify(${CHANNELS.effects}, effect_id || ' ' || repo_id)::text end as told
      from kept`;
}

/** When it may run; NULL, at once, also for an instant that has passed. */
function runAt({ runAt: instant, delayMs }: NewEffect) {
  if (instant !== undefined) {
    const at = instant.toISOString();
    return sql`case when ${at}::timestamptz > statement_timestamp() then ${at}::timestamptz end`;
  }
  if (delayMs === undefined || delayMs === 0) return sql`null::timestamptz`;
  return sql`statement_timestamp() + ${delayMs}::double precision * interval '1 ms'`;
}
