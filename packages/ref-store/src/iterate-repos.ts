import type { DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import type { ObjectFormat } from './oid.ts';

export interface KnownRepo {
  repoId: string;
  objectFormat: ObjectFormat;
  /** How many pushes changed its refs; 0: no push has reached it yet. */
  refsVersion: bigint;
}

const PAGE_ROWS = 1000;

/** All repositories that were pushed to or set up, by name; for upkeep and audit, hence across repositories. */
export async function* iterateRepos(db: Kysely<DB>): AsyncGenerator<KnownRepo, void, undefined> {
  for (let after = ''; ;) {
    const rows = await db
      .selectFrom('repo')
      .select(['repo_id', 'object_format', sql<string>`refs_version::text`.as('refs_version')])
      .where('repo_id', '>', after)
      .orderBy('repo_id')
      .limit(PAGE_ROWS)
      .execute();
    for (const row of rows) {
      yield {
        repoId: row.repo_id,
        objectFormat: row.object_format as ObjectFormat,
        refsVersion: BigInt(row.refs_version),
      };
    }
    if (rows.length < PAGE_ROWS) return;
    after = rows.at(-1)!.repo_id;
  }
}
