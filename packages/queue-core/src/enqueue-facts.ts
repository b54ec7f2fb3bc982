import { table, type DB } from '@sluice/db';
import { sql, type Transaction } from 'kysely';
import type { NewEffect } from './new-effect.ts';
import { scoped, type Candidate, type EnqueueFacts } from './plan-enqueue.ts';
import { nextEffectId } from './sequences.ts';

/** Ids for the whole batch, and the limits of the repos that have one. */
export async function prepareBatch(trx: Transaction<DB>, effects: readonly NewEffect[]) {
  const repoIds = [...new Set(effects.map((effect) => effect.repoId))];
  const { rows } = await sql<{ ids: string; limits: string | null }>`
    select (select string_agg(id::text, ' ' order by id)
              from (select ${nextEffectId} as id from generate_series(1, ${effects.length}::integer)) numbered) as ids,
           (select jsonb_object_agg(repo_id, max_queued)::text from ${table('repo')}
             where repo_id = any(${repoIds}::text[]) and max_queued is not null) as limits`.execute(trx);
  const { ids, limits } = rows[0]!;
  const limited = JSON.parse(limits ?? '{}') as Record<string, number>;
  return { ids: ids.split(' ').map(BigInt), limits: new Map(Object.entries(limited)) };
}

/**
 * How many more effects may wait; below 0 where a limit was lowered. The two kinds of waiting effects are counted
 * through the index of each, as far beyond the limit as `giveWay` of them could make room.
 */
export async function readRoom(
  trx: Transaction<DB>,
  limits: ReadonlyMap<string, number>,
  giveWay: number,
): Promise<Map<string, number>> {
  const { rows } = await sql<{ repo_id: string; room: string }>`
    select l.repo_id, (l.most - (e.n - c.n) - s.n)::text as room
      from unnest(${[...limits.keys()]}::text[], ${[...limits.values()]}::bigint[]) as l (repo_id, most)
     cross join lateral (select count(*) as n from ${table('effect_claim')} c where c.repo_id = l.repo_id) c
     cross join lateral (select count(*) as n from (select from ${table('effect_queue')} q
                          where q.repo_id = l.repo_id and q.run_at is null limit l.most + c.n + ${giveWay}::bigint) q) e
     cross join lateral (select count(*) as n from (select from ${table('effect_queue')} q
                          where q.repo_id = l.repo_id and q.run_at is not null limit l.most + ${giveWay}::bigint) q) s`.execute(
    trx,
  );
  return new Map(rows.map((row) => [row.repo_id, Number(row.room)]));
}

/** Waiting effects of the groups that superseding candidates name, oldest first; under the turn locks of their repos. */
export async function readWaiting(
  trx: Transaction<DB>,
  superseding: readonly Candidate[],
): Promise<EnqueueFacts['waiting']> {
  const repoIds = [...new Set(superseding.map((c) => c.repoId))];
  const groups = new Map(superseding.map((c) => [scoped(c.repoId, c.concurrencyGroup!), c]));
  const { rows } = await sql<{
    effect_id: string;
    repo_id: string;
    dedup_key: string | null;
    concurrency_group: string;
  }>`
    select w.effect_id::text, w.repo_id, w.dedup_key, w.concurrency_group
      from unnest(${[...groups.values()].map((c) => c.repoId)}::text[],
                  ${[...groups.values()].map((c) => c.concurrencyGroup)}::text[]) as g (repo_id, concurrency_group)
     cross join lateral (
            select q.effect_id, q.repo_id, q.dedup_key, q.concurrency_group
              from ${table('effect_queue')} q
             where q.repo_id = g.repo_id and q.concurrency_group = g.concurrency_group
               and q.effect_id not in (select c.effect_id from ${table('effect_claim')} c
                                        where c.repo_id = any(${repoIds}::text[]))
             order by q.effect_id offset 0) w
     order by w.effect_id`.execute(trx);
  return rows.map((row) => ({
    effectId: BigInt(row.effect_id),
    repoId: row.repo_id,
    dedupKey: row.dedup_key,
    concurrencyGroup: row.concurrency_group,
  }));
}
