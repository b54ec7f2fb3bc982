import { table, type DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import { nextEffectId } from './sequences.ts';

/** An effect that never waited: it was skipped, or superseded by a later one of its own batch. */
export interface BornFinished {
  /** Absent: it gets the next one. */
  effectId?: bigint;
  repoId: string;
  name: string;
  payload: string;
  state: 'skipped' | 'superseded';
  reason: string;
  priority: number;
  maxAttempts: number;
  dedupKey: string | null;
  concurrencyGroup: string | null;
  pushId: string | null;
}

/** Writes effects straight into history, in one statement, and returns their ids in the given order. */
export async function insertFinished(db: Kysely<DB>, rows: readonly BornFinished[]): Promise<bigint[]> {
  if (rows.length === 0) return [];
  const result = await sql<{ ids: string }>`
    with numbered as materialized (
      select coalesce(given.id, ${nextEffectId}) as effect_id, given.*
        from unnest(${rows.map((row) => row.effectId ?? null)}::bigint[],
                    ${rows.map((row) => row.repoId)}::text[],
                    ${rows.map((row) => row.name)}::text[],
                    ${rows.map((row) => row.payload)}::text[],
                    ${rows.map((row) => row.state)}::text[],
                    ${rows.map((row) => row.reason)}::text[],
                    ${rows.map((row) => row.priority)}::smallint[],
                    ${rows.map((row) => row.maxAttempts)}::integer[],
                    ${rows.map((row) => row.dedupKey)}::text[],
                    ${rows.map((row) => row.concurrencyGroup)}::text[],
                    ${rows.map((row) => row.pushId)}::text[])
             with ordinality as given (id, repo_id, name, payload, state, reason, priority, max_attempts, dedup_key,
                                       concurrency_group, push_id, position)
    ), kept as (
      insert into ${table('effect_history')}
             (effect_id, repo_id, name, payload, state, reason, priority, attempts, max_attempts, dedup_key,
              concurrency_group, push_id, enqueued_at)
      select effect_id, repo_id, name, payload, state, reason, priority, 0, max_attempts, dedup_key,
             concurrency_group, push_id, now()
        from numbered
    )
    select string_agg(effect_id::text, ' ' order by position) as ids from numbered`.execute(db);
  return result.rows[0]!.ids.split(' ').map(BigInt);
}
