import { dateOf, type DB, instant } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import type { Oid } from './oid.ts';
import type { AppliedEdit } from './ref-edit.ts';

/** A push as the op log and the reflog have it; nothing of it was verified. */
export interface LoggedPush {
  pushId: Oid;
  /** Position in the repository's log. */
  seq: bigint;
  parent: Oid | null;
  certOid: Oid | null;
  signer: string | null;
  signature: string | null;
  /** Bytes of the op record; null for one that was recorded by id only. */
  body: Buffer | null;
  createdAt: Date;
  edits: (AppliedEdit & { createdAt: Date })[];
}

const PAGE_ROWS = 200;

/** The pushes of a repository in the order of its log, those after number `after`. Holds a few hundred in memory. */
export async function* iteratePushes(
  db: Kysely<DB>,
  { repoId, after = 0n }: { repoId: string; after?: bigint },
): AsyncGenerator<LoggedPush, void, undefined> {
  for (let last = after; ;) {
    const rows = await db
      .selectFrom('op_record')
      .select([
        'push_id',
        sql<string>`seq::text`.as('seq'),
        'parent',
        'cert_oid',
        'signer',
        'signature',
        sql<string | null>`encode(body, 'hex')`.as('body'),
        instant(sql`created_at`).as('created_at'),
      ])
      .where('repo_id', '=', repoId)
      .where('seq', '>', last)
      // The column: `seq` alone is the text.
      .orderBy('op_record.seq')
      .limit(PAGE_ROWS)
      .execute();
    const pushIds = rows.map((row) => row.push_id);
    const edits = await readEdits(db, repoId, pushIds);
    for (const row of rows) {
      yield {
        pushId: row.push_id,
        seq: BigInt(row.seq),
        parent: row.parent,
        certOid: row.cert_oid,
        signer: row.signer,
        signature: row.signature,
        body: row.body === null ? null : Buffer.from(row.body, 'hex'),
        createdAt: dateOf(row.created_at),
        edits: edits.get(row.push_id) ?? [],
      };
    }
    if (rows.length < PAGE_ROWS) return;
    last = BigInt(rows.at(-1)!.seq);
  }
}

async function readEdits(
  db: Kysely<DB>,
  repoId: string,
  pushIds: readonly Oid[],
): Promise<ReadonlyMap<Oid, LoggedPush['edits']>> {
  if (pushIds.length === 0) return new Map();
  const rows = await db
    .selectFrom('reflog')
    .select(['push_id', 'name', 'old_oid', 'new_oid', instant(sql`created_at`).as('created_at')])
    .where('repo_id', '=', repoId)
    .where('push_id', 'in', pushIds)
    .orderBy('reflog_id')
    .execute();
  const edits = Map.groupBy(rows, (row) => row.push_id);
  return new Map(
    [...edits].map(([pushId, of]) => [
      pushId,
      of.map((row) => ({
        name: row.name,
        oldOid: row.old_oid,
        newOid: row.new_oid,
        createdAt: dateOf(row.created_at),
      })),
    ]),
  );
}
