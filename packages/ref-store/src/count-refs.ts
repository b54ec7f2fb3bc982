import type { DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import { endOfPrefix } from './read-refs.ts';

/** How many refs a repository has, those with a prefix left out; stops at `limit`. */
export async function countRefs(
  db: Kysely<DB>,
  repoId: string,
  { except, limit }: { except: string; limit: number },
): Promise<number> {
  const all = db.selectFrom('ref').select('name').where('repo_id', '=', repoId);
  const end = endOfPrefix(except);
  // Two ranges of the index: a condition that excludes would read what is left out as well.
  const before = all.where('name', '<', except);
  const refs = end === undefined ? before : before.unionAll(all.where('name', '>=', end));
  const { count } = await db
    .selectFrom(refs.limit(limit).as('counted'))
    .select(sql<string>`count(*)`.as('count'))
    .executeTakeFirstOrThrow();
  return Number(count);
}
