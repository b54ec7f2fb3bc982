import { dateOf, type DB, inBoundedTransaction, instant } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import { lockRepo } from './lock-repo.ts';
import type { Oid } from './oid.ts';
import type { AppliedEdit } from './ref-edit.ts';

export interface FoundPush {
  pushId: Oid;
  seq: bigint;
  /** Push id of the previous push. */
  parent: Oid | null;
  signer: string | null;
  /** Bytes of the op record, signature included; null for one that was recorded by id only. */
  body: Buffer | null;
  /** When it was committed, by the database clock. */
  createdAt: Date;
  applied: AppliedEdit[];
}

/**
 * The push with this id, or undefined: then it was not accepted and never will be. Waits for a transaction that is
 * still writing to the repository, or making it, so the answer is final even right after a connection was lost during COMMIT.
 * `db` is no transaction.
 */
export async function findPush(
  db: Kysely<DB>,
  { repoId, pushId }: { repoId: string; pushId: Oid },
): Promise<FoundPush | undefined> {
  // A statement of its own: the next one then has a snapshot that is newer than the lock.
  const locked = await db
    .selectFrom('repo')
    .select('repo_id')
    .where('repo_id', '=', repoId)
    .forShare()
    .executeTakeFirst();
  // A first push makes the row that others wait for, and they do not see it before it is committed.
  if (locked === undefined) await untilNobodyMakes(db, repoId);
  const row = await db
    .selectFrom('op_record')
    .select([
      sql<string>`seq::text`.as('seq'),
      'parent',
      'signer',
      sql<string | null>`encode(body, 'hex')`.as('body'),
      instant(sql`created_at`).as('created_at'),
    ])
    .where('repo_id', '=', repoId)
    .where('push_id', '=', pushId)
    .executeTakeFirst();
  if (row === undefined) return undefined;
  const edits = await db
    .selectFrom('reflog')
    .select(['name', 'old_oid', 'new_oid'])
    .where('repo_id', '=', repoId)
    .where('push_id', '=', pushId)
    .orderBy('reflog_id')
    .execute();
  return {
    pushId,
    seq: BigInt(row.seq),
    parent: row.parent,
    signer: row.signer,
    body: row.body === null ? null : Buffer.from(row.body, 'hex'),
    createdAt: dateOf(row.created_at),
    applied: edits.map((edit) => ({ name: edit.name, oldOid: edit.old_oid, newOid: edit.new_oid })),
  };
}

/** Waits for whoever is making the repository, by making it, which is taken back. */
async function untilNobodyMakes(db: Kysely<DB>, repoId: string): Promise<void> {
  const takenBack = new Error('never committed');
  try {
    await inBoundedTransaction(db, async (trx) => {
      await lockRepo(trx, { repoId, create: { objectFormat: 'sha1' } });
      throw takenBack;
    });
  } catch (error) {
    if (error !== takenBack) throw error;
  }
}
