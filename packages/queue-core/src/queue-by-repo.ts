import { table, type DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import { assertRepoId, assertWhole } from './assert-argument.ts';

/** Where a repo's unfinished effects stand. */
export interface RepoQueue {
  repoId: string;
  /** Unclaimed, and free to be claimed. */
  waiting: number;
  /** Not before a later time: delayed, or to be retried. */
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

const LIMIT_MAX = 10_000;

/**
 * A page of the repos with unfinished effects, in order of their ids; `after` is the last one of the page before.
 * With `repoId`, only that one. Reads every unfinished effect of the page's repos, and nothing that is finished.
 */
export async function queueByRepo(
  db: Kysely<DB>,
  request: { repoId?: string | undefined; after?: string | undefined; limit?: number | undefined } = {},
): Promise<RepoQueue[]> {
  const { repoId, after = '', limit = 100 } = request;
  if (repoId !== undefined) assertRepoId('repoId', repoId);
  assertWhole('limit', limit, 1, LIMIT_MAX);
  const { rows } = await sql<{
    repo_id: string;
    waiting: number;
    scheduled: number;
    running: number;
    cap: number | null;
    weight: number;
    paused_at: Date | null;
    oldest_waiting_ms: number | null;
  }>`
    select q.repo_id, (count(*) filter (where q.run_at is null and c.effect_id is null))::int as waiting,
           (count(*) filter (where q.run_at is not null))::int as scheduled,
           count(c.effect_id)::int as running,
           r.cap, coalesce(r.weight, 1) as weight, r.paused_at,
           greatest(0, extract(epoch from statement_timestamp()
             - min(q.enqueued_at) filter (where q.run_at is null and c.effect_id is null)) * 1000)::float8
             as oldest_waiting_ms
      from ${table('effect_queue')} q
      left join ${table('effect_claim')} c on c.effect_id = q.effect_id
      left join ${table('repo')} r on r.repo_id = q.repo_id
     where q.repo_id > ${after}::text and ${repoId === undefined ? sql`true` : sql`q.repo_id = ${repoId}`}
     group by q.repo_id, r.repo_id
     order by q.repo_id
     limit ${limit}::int`.execute(db);
  return rows.map((row) => ({
    repoId: row.repo_id,
    waiting: row.waiting,
    scheduled: row.scheduled,
    running: row.running,
    cap: row.cap,
    weight: row.weight,
    pausedAt: row.paused_at,
    oldestWaitingMs: row.waiting === 0 ? null : row.oldest_waiting_ms,
  }));
}
