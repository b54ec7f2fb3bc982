import type { DB } from '@sluice/db';
import type { Kysely } from 'kysely';

const PAGE_ROWS = 1000;

/** The ids of all repositories that were pushed to or set up, in order; for upkeep, hence across repositories. */
export async function* iterateRepos(db: Kysely<DB>): AsyncGenerator<string, void, undefined> {
  for (let after = ''; ;) {
    const rows = await db
      .selectFrom('repo')
      .select('repo_id')
      .where('repo_id', '>', after)
      .orderBy('repo_id')
      .limit(PAGE_ROWS)
      .execute();
    for (const { repo_id } of rows) yield repo_id;
    if (rows.length < PAGE_ROWS) return;
    after = rows.at(-1)!.repo_id;
  }
}
