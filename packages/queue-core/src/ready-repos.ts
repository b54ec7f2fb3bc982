import { table, type DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import { assertWhole } from './assert-argument.ts';

/** A repo with effects that are neither scheduled nor finished. */
export interface ReadyRepo {
  repoId: string;
  /** The first of them in claim order that is unclaimed; null: all are claimed. */
  next: { effectId: bigint; priority: number } | null;
  /** Open claims of the repo, of all claimants. */
  claimed: number;
  /** Cap of its own; null: the dispatcher's default. */
  cap: number | null;
  weight: number;
  isPaused: boolean;
}

const LIMIT_MAX = 100_000;

/**
 * The sweep: a page of the repos that have effects to run, in order of their ids, `after` the last one of the page
 * before. Fewer than `limit` rows: it was the last page.
 *
 * A loose index scan jumps from one repo to the next, so the cost is that of the repos and of the open claims, whatever
 * the length of their backlogs. Only the sweep makes sure that no effect is forgotten; notifications only save time.
 */
export async function readyRepos(
  db: Kysely<DB>,
  { after = '', limit }: { after?: string | undefined; limit: number },
): Promise<ReadyRepo[]> {
  assertWhole('limit', limit, 1, LIMIT_MAX);
  const { rows } = await readyReposStatement(after, limit).execute(db);
  return rows.map((row) => ({
    repoId: row.repo_id,
    next: row.next_id === null ? null : { effectId: BigInt(row.next_id), priority: row.next_priority! },
    claimed: row.claimed,
    cap: row.cap,
    weight: row.weight,
    isPaused: row.is_paused,
  }));
}

interface ReadyRow {
  repo_id: string;
  next_id: string | null;
  next_priority: number | null;
  claimed: number;
  cap: number | null;
  weight: number;
  is_paused: boolean;
}

/** The statement behind {@link readyRepos}. */
export function readyReposStatement(after: string, limit: number) {
  const next = (previous: ReturnType<typeof sql>) => sql`
    select q.repo_id from ${table('effect_queue')} q
     where q.run_at is null and q.repo_id > ${previous}
     order by q.repo_id, q.priority desc, q.effect_id limit 1`;
  return sql<ReadyRow>`
    with recursive walk (repo_id, position) as (
      select (${next(sql`${after}::text`)}), 1
      union all
      select (${next(sql`walk.repo_id`)}), walk.position + 1
        from walk where walk.repo_id is not null and walk.position < ${limit}::int
    ), claims as materialized (
      select repo_id, effect_id from ${table('effect_claim')}
    ), open as materialized (
      select repo_id, count(*)::int as claimed from claims group by repo_id
    )
    select walk.repo_id,
           next.effect_id::text as next_id, next.priority::int as next_priority,
           coalesce(open.claimed, 0) as claimed, repo.cap, coalesce(repo.weight, 1) as weight,
           repo.paused_at is not null as is_paused
      from walk
      -- Not "exists": the planner would rather hash every waiting effect once than look at one for each repo.
      left join lateral (
        select q.effect_id, q.priority from ${table('effect_queue')} q
         where q.repo_id = walk.repo_id and q.run_at is null and q.effect_id not in (select effect_id from claims)
         order by q.repo_id, q.priority desc, q.effect_id limit 1
      ) next on true
      left join open on open.repo_id = walk.repo_id
      left join ${table('repo')} repo on repo.repo_id = walk.repo_id
     where walk.repo_id is not null
     order by walk.position`;
}
