import type { DB } from '@sluice/db';
import type { Kysely } from 'kysely';
import type { Oid } from './oid.ts';

/** What one ref names now; undefined if there is no such ref. */
export async function readRef(
  db: Kysely<DB>,
  { repoId, name }: { repoId: string; name: string },
): Promise<Oid | undefined> {
  const row = await db
    .selectFrom('ref')
    .select('oid')
    .where('repo_id', '=', repoId)
    .where('name', '=', name)
    .executeTakeFirst();
  return row?.oid;
}
