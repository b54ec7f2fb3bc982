import { table, type DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import { assertWhole } from './assert-argument.ts';
import { effectId, type EffectId } from './effect-id.ts';

export interface Promotion {
  /** Effects that now wait for their turn. */
  promoted: { repoId: string; effectId: EffectId }[];
  /** Until the next scheduled effect is due; 0: one is due already; null: none is scheduled. */
  nextDueInMs: number | null;
}

const LIMIT_MAX = 100_000;

/**
 * Lets up to `limit` scheduled effects wait for their turn, those whose time came first. Several dispatchers may do
 * this at once: none takes or waits for another's rows. Effects that are not due yet cost nothing.
 */
export async function promoteDue(db: Kysely<DB>, { limit }: { limit: number }): Promise<Promotion> {
  assertWhole('limit', limit, 1, LIMIT_MAX);
  const promoted = await promoteStatement(limit).execute(db);
  const next = await sql<{ due_in_ms: number }>`
    select greatest(0, ceil(extract(epoch from run_at - clock_timestamp()) * 1000))::float8 as due_in_ms
      from ${table('effect_queue')} where run_at is not null order by run_at, effect_id limit 1`.execute(db);
  return {
    promoted: promoted.rows.map((row) => ({ repoId: row.repo_id, effectId: effectId(row.effect_id) })),
    nextDueInMs: next.rows[0]?.due_in_ms ?? null,
  };
}

/** The statement behind {@link promoteDue}. */
export function promoteStatement(limit: number) {
  return sql<{ repo_id: string; effect_id: string }>`
    with due as materialized (
      select effect_id from ${table('effect_queue')}
       where run_at is not null and run_at <= statement_timestamp()
       order by run_at, effect_id
       limit ${limit}::int
         for update skip locked
    )
    update ${table('effect_queue')} set run_at = null
     where effect_id = any(array(select effect_id from due))
    returning repo_id, effect_id::text`;
}
