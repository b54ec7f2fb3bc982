import { dateOf, type DB, instant, table } from '@sluice/db';
import { sql, type Kysely, type RawBuilder } from 'kysely';
import { assertRepoId, assertWhole } from './assert-argument.ts';

/** Where a repo's unfinished effects stand. */
export interface RepoQueue {
  repoId: string;
  /** Unclaimed, and free to be claimed; counted to {@link QUEUE_COUNT_MAX}. */
  waiting: number;
  /** Not before a later time: delayed, or to be retried; counted to {@link QUEUE_COUNT_MAX}. */
  scheduled: number;
  /** Claimed. */
  running: number;
  /** Cap of its own; null: the dispatcher's default. */
  cap: number | null;
  weight: number;
  pausedAt: Date | null;
  /** Age of the effect that waits longest, in ms by the database clock; null: none waits. */
  oldestWaitingMs: number | null;
}

/** As far as waiting and scheduled effects of a repo are counted. */
export const QUEUE_COUNT_MAX = 10_000;
const LIMIT_MAX = 10_000;
/** Priorities of one repo among which its oldest effect is looked for. */
const PRIORITIES_MAX = 1_000;

interface Request {
  repoId?: string | undefined;
  /** The last repo of the page before. */
  after?: string | undefined;
  /** The default is 100. */
  limit?: number | undefined;
}

/**
 * A page of the repos with unfinished effects, in order of their ids; with `repoId`, only that one. Its cost is that of
 * the page and of the open claims: counts stop at a bound, and other repos' backlogs are not read.
 */
export async function queueByRepo(db: Kysely<DB>, request: Request = {}): Promise<RepoQueue[]> {
  const { rows } = await queueByRepoStatement(request).execute(db);
  return rows.map((row) => ({
    repoId: row.repo_id,
    waiting: row.waiting,
    scheduled: row.scheduled,
    running: row.running,
    cap: row.cap,
    weight: row.weight,
    pausedAt: dateOf(row.paused_at),
    oldestWaitingMs: row.oldest_waiting_ms,
  }));
}

interface Row {
  repo_id: string;
  waiting: number;
  scheduled: number;
  running: number;
  cap: number | null;
  weight: number;
  paused_at: string | null;
  oldest_waiting_ms: number | null;
}

/** The statement behind {@link queueByRepo}. */
function queueByRepoStatement({ repoId, after = '', limit = 100 }: Request) {
  if (repoId !== undefined) assertRepoId('repoId', repoId);
  assertWhole('limit', limit, 1, LIMIT_MAX);
  const queue = table('effect_queue');
  return sql<Row>`
    with recursive claims as materialized (
      select repo_id, effect_id from ${table('effect_claim')}
    ), open as materialized (
      select repo_id, count(*)::int as running from claims group by repo_id
    ), ready (repo_id, position) as (
      ${walk('ready', sql`run_at is null`, sql`priority desc`, { repoId, after, limit })}
    ), later (repo_id, position) as (
      ${walk('later', sql`run_at is not null`, sql`run_at`, { repoId, after, limit })}
    ), page as materialized (
      select repo_id, coalesce(open.running, 0) as running
        from (select repo_id from ready union select repo_id from later) repos
        left join open using (repo_id)
       where repo_id is not null
       order by repo_id limit ${limit}::int
    )
    select page.repo_id, page.running, r.cap, coalesce(r.weight, 1) as weight,
           ${instant(sql`r.paused_at`)} as paused_at,
           greatest(0, least(${QUEUE_COUNT_MAX}::int, enqueued.count - page.running)) as waiting,
           scheduled.count as scheduled,
           case when oldest.enqueued_at is not null
                then greatest(0, extract(epoch from statement_timestamp() - oldest.enqueued_at) * 1000)::float8 end
             as oldest_waiting_ms
      from page
      left join ${table('repo')} r on r.repo_id = page.repo_id
      cross join lateral (
        select count(*)::int from (select from ${queue} q where q.repo_id = page.repo_id and q.run_at is null
                                    limit ${QUEUE_COUNT_MAX}::int + page.running) q
      ) enqueued
      cross join lateral (
        select count(*)::int from (select from ${queue} q where q.repo_id = page.repo_id and q.run_at is not null
                                    limit ${QUEUE_COUNT_MAX}::int) q
      ) scheduled
      -- The oldest is the first of one of its priorities: no index has a repo's effects by age alone.
      cross join lateral (
        with recursive level (priority, position) as (
          select (select q.priority from ${queue} q where q.repo_id = page.repo_id and q.run_at is null
                   order by q.repo_id, q.priority desc, q.effect_id limit 1), 1
          union all
          select (select q.priority from ${queue} q
                   where q.repo_id = page.repo_id and q.run_at is null and q.priority < level.priority
                   order by q.repo_id, q.priority desc, q.effect_id limit 1), level.position + 1
            from level where level.priority is not null and level.position < ${PRIORITIES_MAX}::int
        )
        select min((select q.enqueued_at from ${queue} q
                     where q.repo_id = page.repo_id and q.run_at is null
                       and q.priority >= level.priority and q.priority <= level.priority
                       and q.effect_id not in (select effect_id from claims)
                     order by q.repo_id, q.priority desc, q.effect_id limit 1)) as enqueued_at
          from level where level.priority is not null
      ) oldest
     order by page.repo_id`;
}

/** Repos in the order of their ids, by a loose scan: one descent of the index for each. */
function walk(
  name: 'ready' | 'later',
  state: RawBuilder<unknown>,
  order: RawBuilder<unknown>,
  { repoId, after, limit }: { repoId: string | undefined; after: string; limit: number },
): RawBuilder<unknown> {
  const next = (range: RawBuilder<unknown>) => sql`
    select q.repo_id from ${table('effect_queue')} q
     where ${state} and ${range} order by q.repo_id, ${order}, q.effect_id limit 1`;
  if (repoId !== undefined) return sql`select (${next(sql`q.repo_id = ${repoId}`)}), 1`;
  return sql`
      select (${next(sql`q.repo_id > ${after}::text`)}), 1
      union all
      select (${next(sql`q.repo_id > ${sql.id(name)}.repo_id`)}), position + 1
        from ${sql.id(name)} where repo_id is not null and position < ${limit}::int`;
}
