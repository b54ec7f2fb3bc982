import { PREPARED, type DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import type { ObjectFormat, Oid } from './oid.ts';

/** A repository's state at one instant; it may have moved on by the time it is read. */
export interface RepoState {
  readonly objectFormat: ObjectFormat;
  /** The branch a clone checks out; it may have been deleted since. */
  readonly headRef: string;
  /** How many pushes changed the refs so far. */
  readonly refsVersion: bigint;
  readonly opSeq: bigint;
  readonly opTip: Oid | null;
}

/** A repository's state without a lock, or undefined if it does not exist. */
export async function readRepo(db: Kysely<DB>, repoId: string): Promise<RepoState | undefined> {
  const row = await db
    .selectFrom('repo')
    .select([
      'object_format',
      'head_ref',
      // What a `bigint` arrives as is for the caller's pool to say; a text arrives as it is.
      sql<string>`refs_version::text`.as('refs_version'),
      sql<string>`op_seq::text`.as('op_seq'),
      'op_tip',
    ])
    .modifyFront(PREPARED)
    .where('repo_id', '=', repoId)
    .executeTakeFirst();
  if (row === undefined) return undefined;
  return {
    objectFormat: row.object_format as ObjectFormat,
    headRef: row.head_ref,
    refsVersion: BigInt(row.refs_version),
    opSeq: BigInt(row.op_seq),
    opTip: row.op_tip,
  };
}
