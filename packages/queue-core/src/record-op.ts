import { dateOf, type DB, instant, inBoundedTransaction, SluiceError, table } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import { assertRepoId, assertWhole, invalid } from './assert-argument.ts';

/** One accepted push of a repo. */
export interface OpRecord {
  opOid: string;
  /** Position in the repo's log, from 1. */
  seq: bigint;
  /** The accepted push before it. */
  parent: string | null;
  createdAt: Date;
}

const OP_RECORDS_MAX = 10_000;

/**
 * Records an accepted push and returns its position in the repo's log, from 1 and without gaps. Recording the same
 * push again returns the position it has. For callers that keep their refs elsewhere; `ref-store` writes the signed
 * record itself.
 */
export async function recordOp(db: Kysely<DB>, op: { repoId: string; opOid: string }): Promise<bigint> {
  const { repoId, opOid } = op;
  assertRepoId('repoId', repoId);
  if (typeof opOid !== 'string' || !/^([0-9a-f]{40}|[0-9a-f]{64})$/.test(opOid)) {
    throw invalid('opOid', '40 or 64 lower-case hex digits', opOid, 'Pass the OID of the op record.');
  }
  return await inBoundedTransaction(db, async (trx) => {
    await trx
      .insertInto('repo')
      .values({ repo_id: repoId })
      .onConflict((conflict) => conflict.column('repo_id').doNothing())
      .execute();
    const repo = await trx
      .selectFrom('repo')
      .select([sql<string>`op_seq::text`.as('op_seq'), 'op_tip'])
      .where('repo_id', '=', repoId)
      .forUpdate()
      .executeTakeFirstOrThrow();
    const seq = BigInt(repo.op_seq) + 1n;
    const inserted = await trx
      .insertInto('op_record')
      .values({ push_id: opOid, repo_id: repoId, seq, parent: repo.op_tip })
      .onConflict((conflict) => conflict.column('push_id').doNothing())
      .executeTakeFirst();
    if (inserted.numInsertedOrUpdatedRows === 0n) {
      const known = await trx
        .selectFrom('op_record')
        .select(['repo_id', sql<string>`seq::text`.as('seq')])
        .where('push_id', '=', opOid)
        .executeTakeFirstOrThrow();
      if (known.repo_id === repoId) return BigInt(known.seq);
      throw new SluiceError(
        'invalid_argument',
        `opOid: expected a push of ${repoId}, got one that another repo has recorded.`,
        { next: 'Record each op with the repo that it belongs to.' },
      );
    }
    await trx.updateTable('repo').set({ op_seq: seq, op_tip: opOid }).where('repo_id', '=', repoId).execute();
    return seq;
  });
}

/** Accepted pushes of a repo, the most recent first; at most `limit` (1 to 10,000, the default is 100). */
export async function opRecords(
  db: Kysely<DB>,
  request: { repoId: string; limit?: number },
): Promise<OpRecord[]> {
  const { repoId, limit = 100 } = request;
  assertRepoId('repoId', repoId);
  assertWhole('limit', limit, 1, OP_RECORDS_MAX);
  const { rows } = await sql<{ push_id: string; seq: string; parent: string | null; created_at: string }>`
    select push_id, seq::text, parent, ${instant(sql`created_at`)} as created_at
      from ${table('op_record')} o
     where repo_id = ${repoId}
     order by o.seq desc
     limit ${limit}::int`.execute(db);
  return rows.map((row) => ({
    opOid: row.push_id,
    seq: BigInt(row.seq),
    parent: row.parent,
    createdAt: dateOf(row.created_at),
  }));
}
