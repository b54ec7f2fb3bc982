import type { DB } from '@sluice/db';
import { sql, type Transaction } from 'kysely';
import type { Oid } from './oid.ts';

/**
 * Keeps staged objects for good, together with the push that needs them. Returns the ids that are not stored (never
 * staged, or swept since): stage those again in this transaction, or refuse the push.
 */
export async function promoteObjects(
  trx: Transaction<DB>,
  { repoId, oids }: { repoId: string; oids: readonly Oid[] },
): Promise<Oid[]> {
  if (oids.length === 0) return [];
  await trx
    .updateTable('small_object')
    .set({ promoted_at: sql<Date>`now()` })
    .where('repo_id', '=', repoId)
    .where('oid', '=', sql<string>`any(${oids}::text[])`)
    .where('promoted_at', 'is', null)
    .execute();
  // After the update, so that a row which a sweep was just removing is seen as gone.
  const rows = await trx
    .selectFrom('small_object')
    .select('oid')
    .where('repo_id', '=', repoId)
    .where('oid', '=', sql<string>`any(${oids}::text[])`)
    .execute();
  const stored = new Set(rows.map((row) => row.oid));
  return oids.filter((oid) => !stored.has(oid));
}
