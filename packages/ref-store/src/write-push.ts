import { PREPARED, SluiceError, table, type DB } from '@sluice/db';
import { sql, type Transaction } from 'kysely';
import type { LockedRepo } from './lock-repo.ts';
import type { OpRecord } from './op-record.ts';
import type { AppliedEdit } from './ref-edit.ts';

/** Most bytes of a small object: 2 MiB, as the table's CHECK `small_object_is_small` says. */
const OBJECT_BYTES_MAX = 2_097_152;

export interface PushToWrite {
  repo: LockedRepo;
  record: OpRecord;
  signer: string | null;
  applied: readonly AppliedEdit[];
}

/** Writes an accepted push, in one statement whatever the number of edits; returns the new refs version. */
export async function writePush(
  trx: Transaction<DB>,
  { repo, record, signer, applied }: PushToWrite,
): Promise<bigint> {
  const { repoId, opSeq } = repo;
  // An object too big for its table is left out: the commit is in op_record, the edits are in the reflog.
  const objects = record.objects.filter(({ bytes }) => bytes.length <= OBJECT_BYTES_MAX);
  const { rows } = await sql<{ refs_version: string }>`${PREPARED}
    with edit as materialized (
      select name, old_oid, new_oid, position
      from unnest(
        ${applied.map((edit) => edit.name)}::text[],
        ${applied.map((edit) => edit.oldOid)}::text[],
        ${applied.map((edit) => edit.newOid)}::text[]
      ) with ordinality as given (name, old_oid, new_oid, position)
    ), recorded as (
      insert into ${table('op_record')} (push_id, repo_id, seq, parent, cert_oid, signer, signature, body)
      values (${record.pushId}, ${repoId}, ${opSeq + 1n}, ${repo.opTip}, ${record.certOid}, ${signer},
        ${record.signature}, ${record.body})
    ), deleted as (
      -- An array, not a join: the planner would read all refs of all repositories for one.
      delete from ${table('ref')}
      where repo_id = ${repoId} and name = any(array(select name from edit where new_oid is null))
    ), stored as (
      insert into ${table('ref')} (repo_id, name, oid)
      select ${repoId}, name, new_oid from edit where new_oid is not null
      on conflict (repo_id, name) do update set oid = excluded.oid
    ), logged as (
      insert into ${table('reflog')} (repo_id, push_id, name, old_oid, new_oid)
      select ${repoId}, ${record.pushId}, name, old_oid, new_oid from edit order by position
    ), kept as (
      insert into ${table('small_object')} (repo_id, oid, kind, bytes)
      select ${repoId}, oid, kind, bytes
      from unnest(
        ${objects.map((object) => object.oid)}::text[],
        ${objects.map((object) => object.kind)}::text[],
        ${objects.map((object) => object.bytes)}::bytea[]
      ) as given (oid, kind, bytes)
      on conflict (repo_id, oid) do nothing
    )
    update ${table('repo')}
    set refs_version = refs_version + 1,
      op_seq = op_seq + 1,
      op_tip = ${record.pushId},
      head_ref = case
        when ${firstBranch(repo, applied)}::text is null then head_ref
        when exists (
          select from ${table('reflog')}
          where repo_id = ${repoId} and name >= 'refs/heads/' and name < 'refs/heads0'
        ) then head_ref
        else ${firstBranch(repo, applied)}
      end
    where repo_id = ${repoId} and op_seq = ${opSeq}
    returning refs_version::text`.execute(trx);
  const row = rows[0];
  if (row === undefined) {
    throw new SluiceError(
      'invalid_argument',
      `repo: expected the state that this transaction's lockRepo returned, got an older one of ${repoId}.`,
      { next: 'Lock it again.' },
    );
  }
  return BigInt(row.refs_version);
}

/** The branch that becomes HEAD if none was pushed before: the one HEAD names already, else the first in the push. */
function firstBranch(repo: LockedRepo, applied: readonly AppliedEdit[]): string | null {
  const created = applied.filter((edit) => edit.newOid !== null && edit.name.startsWith('refs/heads/'));
  return (created.find((edit) => edit.name === repo.headRef) ?? created[0])?.name ?? null;
}
