import type { DB } from '@sluice/db';
import type { Transaction } from 'kysely';
import { PROBLEMS_MAX, type FoundProblem } from './found-problem.ts';
import { hashObject } from './hash-object.ts';
import { formatOf, type Oid } from './oid.ts';
import { encodeEdits, encodeTree } from './op-record.ts';
import { iteratePushes, type LoggedPush } from './iterate-pushes.ts';
import { readOpRecord } from './read-op-record.ts';
import { iterateRefs } from './read-refs.ts';
import { readRepo } from './read-repo.ts';
import type { VerifyLogOptions } from './verify-log.ts';

export interface ReplayedLog {
  records: number;
  /** Number of the newest record. */
  lastSeq: bigint;
  /** In the order of the log. */
  problems: FoundProblem[];
}

const PROGRESS_RECORDS = 200;

/** Compares the log with itself, with the reflog and with the refs; what is signed is not looked at. */
export async function replayLog(trx: Transaction<DB>, options: VerifyLogOptions): Promise<ReplayedLog> {
  const { repoId, alsoCheck, onProgress, signal } = options;
  const problems: FoundProblem[] = [];
  const report = (problem: string, { seq, pushId }: Pick<FoundProblem, 'seq' | 'pushId'> = NOW): void => {
    if (problems.length < PROBLEMS_MAX) problems.push({ seq, pushId, problem });
  };
  const repo = await readRepo(trx, repoId);
  const refs = new Map<string, Oid>();
  let last: { seq: bigint; pushId: Oid | null } = { seq: 0n, pushId: null };
  let records = 0;
  for await (const push of iteratePushes(trx, { repoId })) {
    signal?.throwIfAborted();
    if (records % PROGRESS_RECORDS === 0) onProgress?.({ step: 'log', records, total: repo?.opSeq ?? 0n });
    records++;
    for (const problem of faultsOf(push, last, options)) report(problem, push);
    for (const problem of (await alsoCheck?.(trx, push, refs)) ?? []) report(problem, push);
    for (const { name, oldOid, newOid } of push.edits) {
      if ((refs.get(name) ?? null) !== oldOid)
        report(`the old value of ${name} is not what the log left`, push);
      if (newOid === null) refs.delete(name);
      else refs.set(name, newOid);
    }
    last = push;
  }
  if (repo !== undefined && (repo.opTip !== last.pushId || repo.opSeq !== last.seq)) {
    report(
      `the newest op record should be number ${repo.opSeq}, push ${repo.opTip}, but number ${last.seq} is`,
    );
  }
  for (const { name, push_id } of await readStrayEdits(trx, repoId)) {
    report(`the reflog has an edit of ${name} by ${push_id}, which is no push of this repository`);
  }
  for await (const { name, oid } of iterateRefs(trx, repoId)) {
    if (refs.get(name) !== oid) report(`the value of ${name} is not what the log says`);
    refs.delete(name);
  }
  for (const name of refs.keys()) report(`${name} is missing; the log says it exists`);
  return { records, lastSeq: last.seq, problems };
}

/** In the present state, not in a record. */
const NOW = { seq: null, pushId: null };

function* faultsOf(
  push: LoggedPush,
  last: { seq: bigint; pushId: Oid | null },
  { repoId, trustedKeys }: VerifyLogOptions,
): Generator<string> {
  const { pushId, seq, parent, certOid, signer, signature, body, createdAt, edits } = push;
  if (seq !== last.seq + 1n) {
    yield `expected number ${last.seq + 1n}, got ${seq}: push ${parent ?? 'none'}, which it names as the one before, is missing`;
  }
  const record = body === null ? null : readOpRecord({ pushId, body });
  // It differs in everything, and is named where its signature is checked.
  if (record === null || typeof record === 'string') return;
  const retiredAt = trustedKeys.find((key) => key.publicKey.startsWith(record.publicKey))?.retiredAt ?? null;
  const signedAt = Number(record.seconds) * 1000;
  // Not as "valid-before" in a list of signers: older ssh-keygens do not know it, and the others do not say why.
  if (retiredAt !== null && signedAt > retiredAt.getTime() + ROUNDED_MS) {
    yield `it is signed by a key that was retired at ${retiredAt.toISOString()}`;
  }
  if (record.parent !== last.pushId || parent !== last.pushId) yield 'its parent is not the record before it';
  if (record.repoId !== repoId) yield `it was made for the repository ${record.repoId}`;
  if (record.seq !== seq) yield `it was signed as number ${record.seq}`;
  if (record.signer !== signer) yield 'its signer differs from the signed one';
  if (record.signature !== signature) yield 'its signature differs from the one that it holds';
  const isItsTime = (at: Date): boolean => Math.abs(at.getTime() - signedAt) <= ROUNDED_MS;
  if (!isItsTime(createdAt)) yield 'its time differs from the signed one';
  const late = edits.find((edit) => !isItsTime(edit.createdAt));
  if (late !== undefined) yield `the time of its edit of ${late.name} differs from the signed one`;
  const format = formatOf(pushId);
  const editsOid = hashObject(format, 'blob', Buffer.from(encodeEdits(format, edits)));
  if (hashObject(format, 'tree', encodeTree(editsOid, certOid)) !== record.tree) {
    yield 'its edits or certificate differ from the signed ones';
  }
}

/** What is signed is a whole second. */
const ROUNDED_MS = 1000;

/** Rows that no record of the repository accounts for, and that {@link iteratePushes} therefore never sees. */
async function readStrayEdits(
  trx: Transaction<DB>,
  repoId: string,
): Promise<{ name: string; push_id: string }[]> {
  return await trx
    .selectFrom('reflog')
    .leftJoin('op_record', (join) =>
      join
        .onRef('op_record.push_id', '=', 'reflog.push_id')
        .onRef('op_record.repo_id', '=', 'reflog.repo_id'),
    )
    .select(['reflog.name', 'reflog.push_id'])
    .where('reflog.repo_id', '=', repoId)
    .where('op_record.push_id', 'is', null)
    .limit(PROBLEMS_MAX)
    .execute();
}
