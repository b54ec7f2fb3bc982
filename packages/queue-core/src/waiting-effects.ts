import { dateOf, type DB, instant, table } from '@sluice/db';
import { sql, type Kysely, type RawBuilder } from 'kysely';
import { assertRepoId, assertWhole } from './assert-argument.ts';
import type { EffectId } from './effect-id.ts';
import { waitReason, type WaitFacts, type WaitReason } from './wait-reason.ts';

/** An unfinished effect that nobody has claimed, and why. */
export interface WaitingEffect {
  effectId: EffectId;
  repoId: string;
  name: string;
  state: 'enqueued' | 'scheduled';
  priority: number;
  /** Unclaimed effects of its repo that come before it, counted to 10,000; 0 for a scheduled one. */
  ahead: number;
  enqueuedAt: Date;
  pushId: string | null;
  waitsFor: WaitReason;
}

const LIMIT_MAX = 1_000;
const AHEAD_MAX = 10_000;

/**
 * Effects that wait, each with what it waits for: those of a repo in the order in which they will be claimed, scheduled
 * ones last. Without a `repoId`, repo after repo. `defaultCap` is the dispatchers' cap for repos without their own.
 */
export async function waitingEffects(
  db: Kysely<DB>,
  request: { repoId?: string | undefined; limit?: number | undefined; defaultCap?: number | undefined } = {},
): Promise<WaitingEffect[]> {
  const { rows } = await waitingStatement(request).execute(db);
  return rows.map((row) => toWaitingEffect(row, request.defaultCap));
}

/** The statement behind {@link waitingEffects}. */
export function waitingStatement({
  repoId,
  limit = 100,
}: {
  repoId?: string | undefined;
  limit?: number | undefined;
}) {
  if (repoId !== undefined) assertRepoId('repoId', repoId);
  assertWhole('limit', limit, 1, LIMIT_MAX);
  // A range, although it holds one repo: an equality would make the index of all that is due look sorted enough, and one
  // repo's effects would be looked for among everybody's.
  const ofRepo =
    repoId === undefined ? sql`true` : sql`q.repo_id >= ${repoId}::text and q.repo_id <= ${repoId}::text`;
  return explain(
    sql`(select ${COLUMNS} from ${table('effect_queue')} q
          where ${ofRepo} and q.run_at is null and ${UNCLAIMED}
          order by q.repo_id, q.priority desc, q.effect_id limit ${limit}::int)
        union all
        (select ${COLUMNS} from ${table('effect_queue')} q
          where ${ofRepo} and q.run_at is not null
          order by q.repo_id, q.run_at, q.effect_id limit ${limit}::int)`,
    limit,
  );
}

/** One effect, if it waits. */
export async function waitingEffect(
  db: Kysely<DB>,
  effectId: EffectId,
  defaultCap?: number,
): Promise<WaitingEffect | undefined> {
  const { rows } = await explain(
    sql`select ${COLUMNS} from ${table('effect_queue')} q where q.effect_id = ${effectId} and ${UNCLAIMED}`,
    1,
  ).execute(db);
  return rows[0] === undefined ? undefined : toWaitingEffect(rows[0], defaultCap);
}

const COLUMNS = sql`q.effect_id, q.repo_id, q.name, q.priority, q.attempts, q.run_at, q.last_error, q.enqueued_at, q.push_id`;

const UNCLAIMED = sql`not exists (
  select from ${table('effect_claim')} c where c.effect_id = q.effect_id offset 0)`;

interface WaitingRow extends WaitFacts {
  effect_id: string;
  repo_id: string;
  name: string;
  priority: number;
  enqueued_at: string;
  push_id: string | null;
}

function explain(effects: RawBuilder<unknown>, limit: number): RawBuilder<WaitingRow> {
  return sql<WaitingRow>`
    with listed as materialized (
      select * from (${effects}) listed
       order by repo_id, run_at nulls first, priority desc, effect_id
       limit ${limit}::int
    ), repos as materialized (
      select listed.repo_id, first.effect_id as first_id, r.cap, r.paused_at, running.count as repo_running,
             ahead_of_first.count as ahead_of_first
        from (select distinct repo_id from listed) listed
        left join ${table('repo')} r on r.repo_id = listed.repo_id
        cross join lateral (
          select count(*)::int from ${table('effect_claim')} c where c.repo_id = listed.repo_id
        ) running
        left join lateral (
          select effect_id, priority from listed l where l.repo_id = listed.repo_id and l.run_at is null
           order by l.priority desc, l.effect_id limit 1
        ) first on true
        cross join lateral (
          -- Only for an effect that is listed alone: in a list, the first one is the first of its repo.
          -- Two ranges of the claim index, since "or" would walk all that comes after as well.
          select count(*)::int from (
            (select from ${table('effect_queue')} q
              where q.repo_id = listed.repo_id and q.run_at is null and q.priority > first.priority and ${UNCLAIMED}
              limit ${AHEAD_MAX}::int)
            union all
            (select from ${table('effect_queue')} q
              where q.repo_id = listed.repo_id and q.run_at is null and q.priority >= first.priority
                and q.priority <= first.priority and q.effect_id < first.effect_id and ${UNCLAIMED}
              limit ${AHEAD_MAX}::int)
            limit ${AHEAD_MAX}::int) ahead
        ) ahead_of_first
    )
    select listed.effect_id::text, listed.repo_id, listed.name, listed.priority::int, listed.push_id, listed.attempts,
           listed.last_error, repos.cap, repos.repo_running, ${instant(sql`listed.enqueued_at`)} as enqueued_at,
           ${instant(sql`listed.run_at`)} as run_at, ${instant(sql`repos.paused_at`)} as paused_at,
           case when listed.run_at is null
                then repos.ahead_of_first + (row_number() over (
                  partition by listed.repo_id, listed.run_at is null
                  order by listed.priority desc, listed.effect_id) - 1)::int
                else 0 end as ahead,
           (select global_cap from ${table('queue_limit')} where is_singleton) as global_cap,
           (select count(*)::int from ${table('effect_claim')}) as all_running,
           exists (
             select from ${table('dispatcher')}
              where heartbeat_at >= statement_timestamp() - lease_ms * interval '1 millisecond'
           ) as is_dispatcher_alive
      from listed join repos using (repo_id)
     order by listed.repo_id, listed.run_at nulls first, listed.priority desc, listed.effect_id`;
}

function toWaitingEffect(row: WaitingRow, defaultCap: number | undefined): WaitingEffect {
  return {
    effectId: BigInt(row.effect_id) as EffectId,
    repoId: row.repo_id,
    name: row.name,
    state: row.run_at === null ? 'enqueued' : 'scheduled',
    priority: row.priority,
    ahead: row.ahead,
    enqueuedAt: dateOf(row.enqueued_at),
    pushId: row.push_id,
    waitsFor: waitReason(row, defaultCap),
  };
}
