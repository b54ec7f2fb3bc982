import type { DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';

const SWEEP_ROWS_MAX = 1000;

/**
 * Removes objects that were staged longer ago than this and that no push promoted: pushes that never came to be.
 * Returns how many; at most 1,000 a call. Upkeep of the table, hence across repositories. Never waits for a push.
 */
export async function sweepStaged(db: Kysely<DB>, { olderThanMs }: { olderThanMs: number }): Promise<number> {
  const result = await db
    .with('stale', (cte) =>
      cte
        .selectFrom('small_object')
        .select(['repo_id', 'oid'])
        .where('promoted_at', 'is', null)
        .where('created_at', '<', sql<Date>`now() - ${olderThanMs} * interval '1 millisecond'`)
        .orderBy('created_at')
        .limit(SWEEP_ROWS_MAX)
        .forUpdate()
        .skipLocked(),
    )
    .deleteFrom('small_object')
    .using('stale')
    .whereRef('small_object.repo_id', '=', 'stale.repo_id')
    .whereRef('small_object.oid', '=', 'stale.oid')
    .executeTakeFirst();
  return Number(result.numDeletedRows);
}
