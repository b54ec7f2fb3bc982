import { table, type DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import type { Oid } from './oid.ts';
import { readRepo } from './read-repo.ts';

export interface KeptOids {
  /** The state of the refs that this belongs to. */
  refsVersion: bigint;
  /** What refs name. */
  named: Oid[];
  /** What no ref names any more. */
  former: Oid[];
}

export interface ReadKeptOidsOptions {
  repoId: string;
  /** What a ref named before, and no ref names now, counts for this many days after it was replaced; null: for ever. */
  keepDays: number | null;
  /** Beginnings of the names of refs whose former values count for ever all the same. */
  lasting?: readonly string[];
  /** With more than this the answer is null. */
  oidsMax: number;
}

/**
 * Everything that a repository's object store has to keep, at one instant: what refs name, what they named before, and
 * what the pushes named whose effects are not finished. Undefined if there is no such repository.
 */
export async function readKeptOids(
  db: Kysely<DB>,
  { repoId, keepDays, lasting = [], oidsMax }: ReadKeptOidsOptions,
): Promise<KeptOids | null | undefined> {
  const counts =
    keepDays === null
      ? sql`true`
      : sql`(created_at > now() - ${keepDays} * interval '1 day'
          or name ^@ any(${lasting}::text[])
          or push_id = any(array(select push_id from ${table('effect_queue')} where repo_id = ${repoId})))`;
  const snapshot = db.transaction().setIsolationLevel('repeatable read').setAccessMode('read only');
  return await snapshot.execute(async (trx) => {
    const repo = await readRepo(trx, repoId);
    if (repo === undefined) return undefined;
    const { rows } = await sql<{ oid: Oid; is_named: boolean }>`
      select oid, bool_or(is_named) as is_named
        from (
          select oid, true as is_named from ${table('ref')} where repo_id = ${repoId}
          union all
          select v.oid, false from ${table('reflog')}, lateral (values (old_oid), (new_oid)) v (oid)
           where repo_id = ${repoId} and v.oid is not null and ${counts}
        ) kept
       group by oid
       limit ${oidsMax + 1}`.execute(trx);
    if (rows.length > oidsMax) return null;
    const oidsOf = (isNamed: boolean): Oid[] =>
      rows.flatMap((row) => (row.is_named === isNamed ? [row.oid] : []));
    return { refsVersion: repo.refsVersion, named: oidsOf(true), former: oidsOf(false) };
  });
}
