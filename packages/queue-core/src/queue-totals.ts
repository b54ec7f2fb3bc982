import { table, type DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';

/** The queue as a whole: what a repo's own numbers are to be compared with. */
export interface QueueTotals {
  /** Claimed effects of all repos. */
  running: number;
  /** Most of them at once; null: no limit. */
  globalCap: number | null;
  /** Repos with effects that run or wait for their turn. */
  repos: number;
  /** Sum of the weights of those of them that are not paused: what a weight is a share of. */
  weights: number;
}

const REPOS_MAX = 100_000;

/** Reads the totals. Costs one look at an index for each repo with work, up to 100,000, whatever their backlogs. */
export async function queueTotals(db: Kysely<DB>): Promise<QueueTotals> {
  const { rows } = await queueTotalsStatement().execute(db);
  return rows[0]!;
}

/** The statement behind {@link queueTotals}. */
function queueTotalsStatement() {
  const next = (previous: ReturnType<typeof sql>) => sql`
    select q.repo_id from ${table('effect_queue')} q
     where q.run_at is null and q.repo_id > ${previous}
     order by q.repo_id, q.priority desc, q.effect_id limit 1`;
  return sql<QueueTotals>`
    with recursive walk (repo_id, position) as (
      select (${next(sql`''`)}), 1
      union all
      select (${next(sql`walk.repo_id`)}), position + 1
        from walk where walk.repo_id is not null and position < ${sql.lit(REPOS_MAX)}
    )
    select (select count(*)::int from ${table('effect_claim')}) as running,
           (select global_cap from ${table('queue_limit')} where is_singleton) as "globalCap",
           count(walk.repo_id)::int as repos,
           coalesce(sum(coalesce(r.weight, 1)) filter (where r.paused_at is null), 0)::int as weights
      from walk left join ${table('repo')} r on r.repo_id = walk.repo_id
     where walk.repo_id is not null`;
}
