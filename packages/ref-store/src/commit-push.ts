import { SluiceError, type DB } from '@sluice/db';
import type { Transaction } from 'kysely';
import { checkNameToSet, checkRefName } from './check-ref-name.ts';
import { hashObject } from './hash-object.ts';
import { judgeEdits, refuseAll, type NamedRefs } from './judge-edits.ts';
import type { LockedRepo } from './lock-repo.ts';
import { isOid, type Oid } from './oid.ts';
import { buildOpRecord } from './op-record.ts';
import { readNamedRefs } from './read-named-refs.ts';
import type { AppliedEdit, RefEdit, Refusal } from './ref-edit.ts';
import type { ServerKey } from './server-key.ts';
import { writePush } from './write-push.ts';

export interface CommitPushOptions {
  /** What {@link lockRepo} returned in this transaction. */
  repo: LockedRepo;
  edits: readonly RefEdit[];
  /** What {@link lockForPush} read of them in this transaction; read if left out. */
  named?: NamedRefs;
  /** Who pushed, as far as it was proven. */
  signer: string | null;
  /** Signs the op record. */
  key: ServerKey;
  /** The push certificate as git received it. Each is accepted once per repository. */
  certificate?: Uint8Array;
  /** Why the push causes no effects, for the op record. */
  noEffects?: string;
  /** What `git push -o` said, for the op record; {@link checkPushOption} says what can be recorded. */
  pushOptions?: readonly string[];
  /** First paragraphs of the op record's message; there is a default. */
  message?: string;
  /** Called with the push id before anything is written: what to look for if the outcome of the commit is unknown. */
  onPushId?: (pushId: Oid) => void;
}

export type PushOutcome =
  | {
      status: 'committed';
      /** OID of the op record. */
      pushId: Oid;
      /** Position in the repository's log. */
      seq: bigint;
      refsVersion: bigint;
      /** Edits that changed something, in the order of the push. */
      applied: AppliedEdit[];
    }
  /** Nothing was written. Every ref of the push has a reason. */
  | { status: 'refused'; refusals: Refusal[] }
  /** Every ref was already as asked. Nothing was written, and there is no op record. */
  | { status: 'unchanged' };

/**
 * Applies a push: all its edits or none. Compares every ref with what the push expects, refuses names that are not
 * acceptable or would be both ref and directory, then writes refs, reflog, the signed op record and its objects, and
 * notifies watchers at commit. Two or three statements, however many edits.
 *
 * Everything happens inside the caller's transaction and is durable only when that commits; what belongs to the push,
 * such as its effects, goes into the same one. Serial per repository, because the caller holds the lock.
 *
 * Throws `invalid_argument` for a malformed OID: a client's bad name or stale value is an answer, that is a mistake.
 */
export async function commitPush(trx: Transaction<DB>, options: CommitPushOptions): Promise<PushOutcome> {
  const { repo, edits, signer, key, certificate, noEffects, pushOptions, message } = options;
  for (const edit of edits) assertOids(repo, edit);
  const bad = findBadNames(edits);
  if (bad.size > 0) return { status: 'refused', refusals: refuseAll(edits, bad) };
  const judgement = judgeEdits(edits, options.named ?? (await readNamedRefs(trx, repo.repoId, edits)));
  if ('refusals' in judgement) return { status: 'refused', refusals: judgement.refusals };
  const { applied } = judgement;
  if (applied.length === 0) return { status: 'unchanged' };
  if (certificate !== undefined && (await isCertificateUsed(trx, repo, certificate))) {
    const fault = {
      code: 'certificate',
      reason: 'the push certificate was used before; push again',
    } as const;
    return {
      status: 'refused',
      refusals: refuseAll(edits, new Map(edits.map((edit) => [edit.name, fault]))),
    };
  }
  const record = buildOpRecord({
    repoId: repo.repoId,
    objectFormat: repo.objectFormat,
    seq: repo.opSeq + 1n,
    parent: repo.opTip,
    edits: applied,
    signer,
    seconds: repo.transactionSeconds,
    key,
    ...(certificate === undefined ? {} : { certificate }),
    ...(noEffects === undefined ? {} : { noEffects }),
    ...(pushOptions === undefined ? {} : { pushOptions }),
    ...(message === undefined ? {} : { message }),
  });
  options.onPushId?.(record.pushId);
  const refsVersion = await writePush(trx, { repo, record, signer, applied });
  return { status: 'committed', pushId: record.pushId, seq: repo.opSeq + 1n, refsVersion, applied };
}

function assertOids({ objectFormat }: LockedRepo, { name, expect, to }: RefEdit): void {
  const check = (field: string, value: string): void => {
    if (isOid(objectFormat, value)) return;
    const label = checkRefName(name) === null ? name : 'a ref';
    throw new SluiceError(
      'invalid_argument',
      `edits: expected ${field} of ${label} to be a ${objectFormat} object id, got ${JSON.stringify(value.slice(0, 80))}.`,
    );
  };
  if (expect !== 'any' && expect !== 'absent') check('expect', expect);
  if (to !== null) check('to', to);
}

function findBadNames(edits: readonly RefEdit[]): Map<string, Omit<Refusal, 'name'>> {
  const faults = new Map<string, Omit<Refusal, 'name'>>();
  const seen = new Set<string>();
  for (const { name, to } of edits) {
    const reason = to === null ? checkRefName(name) : checkNameToSet(name);
    if (reason !== null) faults.set(name, { code: 'bad_name', reason: `bad name: ${reason}` });
    else if (seen.has(name))
      faults.set(name, { code: 'duplicate', reason: 'named more than once in this push' });
    seen.add(name);
  }
  return faults;
}

/** Exact, not a guess: the repository is locked. The unique constraint would say it too, but end the transaction. */
async function isCertificateUsed(
  trx: Transaction<DB>,
  repo: LockedRepo,
  certificate: Uint8Array,
): Promise<boolean> {
  const used = await trx
    .selectFrom('op_record')
    .select('push_id')
    .where('repo_id', '=', repo.repoId)
    .where('cert_oid', '=', hashObject(repo.objectFormat, 'blob', certificate))
    .executeTakeFirst();
  return used !== undefined;
}
