import { table, type DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';

/** Most pairs of a repo and a priority that are looked at. */
const LEVELS_MAX = 100_000;

/**
 * How long the effect that waits longest for its turn has waited, in ms by the database clock; null: none waits. Those of
 * paused repos do not count, nor scheduled ones. It says whether anything starves, behind higher priorities for instance.
 * Costs three looks at an index for each repo and priority with work, whatever their backlogs.
 */
export async function oldestWaitingMs(db: Kysely<DB>): Promise<number | null> {
  const { rows } = await oldestWaitingStatement().execute(db);
  return rows[0]!.ms;
}

/** The statement behind {@link oldestWaitingMs}. */
export function oldestWaitingStatement() {
  const queue = table('effect_queue');
  // Ordered as the index is, so that each is one descent of it. "Offset 0" keeps the branches apart.
  const first = (range: ReturnType<typeof sql>) => sql`
    (select q.repo_id, q.priority from ${queue} q where q.run_at is null and ${range}
      order by q.repo_id, q.priority desc, q.effect_id limit 1)`;
  return sql<{ ms: number | null }>`
    with recursive claims as materialized (
      select effect_id from ${table('effect_claim')}
    ), level (repo_id, priority, position) as (
      select given.*, 1 from ${first(sql`q.repo_id > ''`)} given
      union all
      select next.repo_id, next.priority, level.position + 1
        from level
       cross join lateral (
              select * from ${first(sql`q.repo_id = level.repo_id and q.priority < level.priority`)} lower
               union all
              select * from ${first(sql`q.repo_id > level.repo_id`)} other
               limit 1
            ) next
       where level.position < ${LEVELS_MAX}::int
    )
    select case when count(*) > 0
                then greatest(0, extract(epoch from statement_timestamp() - min(oldest.enqueued_at)) * 1000)::float8 end as ms
      from level
     cross join lateral (
            select q.enqueued_at from ${queue} q
             where q.repo_id = level.repo_id and q.run_at is null
               and q.priority >= level.priority and q.priority <= level.priority
               and q.effect_id not in (select effect_id from claims)
             order by q.repo_id, q.priority desc, q.effect_id limit 1
          ) oldest
     where not exists (select from ${table('repo')} r where r.repo_id = level.repo_id and r.paused_at is not null offset 0)`;
}
