import { CHANNELS, PREPARED, table, type DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import type { NewEffect } from './new-effect.ts';
import { nextEffectId } from './sequences.ts';

/**
 * Appends effects to the queue in one statement, whatever their number, and returns their ids in the given order: the
 * given `ids`, or the next ones. With `unlessLimited`, a batch that names a repo with a limit on waiting effects is
 * not written and `undefined` comes back.
 *
 * `pg_notify` makes a commit wait for every other that notifies (measured: a third of the rate of enqueues), so it is
 * called only when a dispatcher sleeps, at most once per repo, and never for effects that have to wait anyway.
 */
export async function insertEffects(
  db: Kysely<DB>,
  effects: readonly NewEffect[],
  options: { ids?: readonly bigint[]; unlessLimited?: boolean },
): Promise<bigint[] | undefined> {
  const { rows } = await insertStatement(effects, options).execute(db);
  return rows[0]?.ids?.map(BigInt);
}

/** The statement behind {@link insertEffects}. */
export function insertStatement(
  effects: readonly NewEffect[],
  { ids, unlessLimited = false }: { ids?: readonly bigint[]; unlessLimited?: boolean },
) {
  const isAccepted = unlessLimited
    ? sql`not exists (select from ${table('repo')} r
                       where r.max_queued is not null
                         and r.repo_id = any(${[...new Set(effects.map((effect) => effect.repoId))]}::text[]))`
    : sql`true`;
  return sql<{ ids: string[] | null }>`${PREPARED}
    with numbered as materialized (
      select ${ids === undefined ? nextEffectId : sql`given.id`} as effect_id, given.*
        from unnest(${ids ?? []}::bigint[],
                    ${effects.map((effect) => effect.repoId)}::text[],
                    ${effects.map((effect) => effect.name ?? '')}::text[],
                    ${effects.map((effect) => effect.payload)}::text[],
                    ${effects.map((effect) => effect.priority ?? 0)}::smallint[],
                    ${effects.map((effect) => effect.maxAttempts ?? 3)}::integer[],
                    ${effects.map((effect) => effect.runAt?.toISOString() ?? null)}::timestamptz[],
                    ${effects.map((effect) => effect.delayMs ?? null)}::double precision[],
                    ${effects.map((effect) => effect.dedupKey ?? null)}::text[],
                    ${effects.map((effect) => effect.concurrencyGroup ?? null)}::text[],
                    ${effects.map((effect) => effect.pushId ?? null)}::text[])
             with ordinality as given (id, repo_id, name, payload, priority, max_attempts, run_at, delay_ms, dedup_key,
                                       concurrency_group, push_id, position)
       where ${isAccepted}
    ), kept as (
      insert into ${table('effect_queue')}
             (effect_id, repo_id, name, payload, priority, max_attempts, run_at, dedup_key, concurrency_group, push_id)
      select effect_id, repo_id, name, payload, priority, max_attempts,
             case when at > statement_timestamp() then at end, dedup_key, concurrency_group, push_id
        from numbered, coalesce(run_at, statement_timestamp() + delay_ms * interval '1 ms') as at
       order by position
      returning effect_id, repo_id, run_at
    ), told as (
      select pg_notify(${CHANNELS.effects}, min(effect_id) || ' ' || repo_id)
        from kept
       where run_at is null and exists (select from ${table('dispatcher')} d where d.is_sleeping)
       group by repo_id
    )
    select array_agg(effect_id::text order by position) as ids, (select count(pg_notify::text) from told) as told
      from numbered`;
}
