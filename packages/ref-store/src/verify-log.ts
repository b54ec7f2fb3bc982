import type { DB } from '@sluice/db';
import type { Kysely } from 'kysely';
import { hashObject } from './hash-object.ts';
import { formatOf, type Oid } from './oid.ts';
import { encodeEdits, encodeTree } from './op-record.ts';
import { iteratePushes, type LoggedPush } from './iterate-pushes.ts';
import { iterateRefs } from './read-refs.ts';
import { readRepo } from './read-repo.ts';
import type { RegisteredKey } from './register-server-key.ts';
import { verifyOpRecord } from './verify-op-record.ts';

/** What {@link verifyLog} found. */
export interface LogCheck {
  /** Op records looked at. */
  records: number;
  /** Empty: the log is whole, and the refs are what it says. At most 100 are listed. */
  problems: LogProblem[];
}

export interface LogProblem {
  /** Push whose record has the fault; null: the fault is in the repository's present state. */
  pushId: Oid | null;
  problem: string;
}

export interface VerifyLogOptions {
  repoId: string;
  /** Keys that may have signed, retired ones until they were. */
  trustedKeys: readonly Pick<RegisteredKey, 'publicKey' | 'retiredAt'>[];
  /**
   * What else has to hold for a push. Called for each, in the order of the log, with the refs as they were before it;
   * the next is looked at once that resolved, while `problems` may go on.
   */
  alsoCheck?: (
    db: Kysely<DB>,
    push: LoggedPush,
    refs: ReadonlyMap<string, Oid>,
  ) => Promise<{ problems: Promise<string[]> }>;
  /** Called now and then with the number of op records looked at, and of those there are. */
  onProgress?: (progress: { records: number; total: bigint }) => void;
  /** Ends it with the signal's reason. */
  signal?: AbortSignal;
}

const PROBLEMS_MAX = 100;
const PROGRESS_RECORDS = 200;
/** Most pushes whose problems are still being looked for. */
const CHECKS_AT_ONCE = 8;

/**
 * Recomputes a repository's history: each op record is signed by a trusted key and follows the one before it, lists
 * exactly the edits of the reflog, and all edits together give the present refs. So a row that was changed by hand is
 * found; the first problem is where the log stops to fit. Reads one instant; holds one entry per ref in memory.
 */
export async function verifyLog(db: Kysely<DB>, options: VerifyLogOptions): Promise<LogCheck> {
  if (!db.isTransaction) {
    const trx = db.transaction().setIsolationLevel('repeatable read').setAccessMode('read only');
    return await trx.execute((inside) => verifyLog(inside, options));
  }
  const { repoId, alsoCheck, onProgress, signal } = options;
  const problems: LogProblem[] = [];
  const report = (pushId: Oid | null, problem: string): void => {
    if (problems.length < PROBLEMS_MAX) problems.push({ pushId, problem });
  };
  const repo = await readRepo(db, repoId);
  const refs = new Map<string, Oid>();
  let last: { seq: bigint; pushId: Oid | null } = { seq: 0n, pushId: null };
  let records = 0;
  const checks: { pushId: Oid; own: string[]; others: Promise<string[]> }[] = [];
  const finishOne = async (): Promise<void> => {
    const { pushId, own, others } = checks.shift()!;
    for (const problem of [...own, ...(await others)]) report(pushId, problem);
  };
  for await (const record of iteratePushes(db, { repoId })) {
    if (records % PROGRESS_RECORDS === 0) {
      signal?.throwIfAborted();
      onProgress?.({ records, total: repo?.opSeq ?? 0n });
    }
    records++;
    const own = [...checkRecord(record, last, options)];
    const also = await alsoCheck?.(db, record, refs);
    for (const { name, oldOid, newOid } of record.edits) {
      if ((refs.get(name) ?? null) !== oldOid) own.push(`the old value of ${name} is not what the log left`);
      if (newOid === null) refs.delete(name);
      else refs.set(name, newOid);
    }
    const others = also?.problems ?? Promise.resolve([]);
    // Not handled by then if this ends before it is its turn.
    others.catch(() => undefined);
    checks.push({ pushId: record.pushId, own, others });
    if (checks.length === CHECKS_AT_ONCE) await finishOne();
    last = record;
  }
  while (checks.length > 0) await finishOne();
  if (repo !== undefined && (repo.opTip !== last.pushId || repo.opSeq !== last.seq)) {
    report(
      null,
      `the newest op record should be number ${repo.opSeq}, push ${repo.opTip}, but number ${last.seq} is`,
    );
  }
  for (const { name, push_id } of await readStrayEdits(db, repoId)) {
    report(null, `the reflog has an edit of ${name} by ${push_id}, which is no push of this repository`);
  }
  for await (const { name, oid } of iterateRefs(db, repoId)) {
    if (refs.get(name) !== oid) report(null, `the value of ${name} is not what the log says`);
    refs.delete(name);
  }
  for (const name of refs.keys()) report(null, `${name} is missing; the log says it exists`);
  return { records, problems };
}

function* checkRecord(
  record: LoggedPush,
  last: { seq: bigint; pushId: Oid | null },
  { repoId, trustedKeys }: VerifyLogOptions,
): Generator<string> {
  const { pushId, seq, parent, certOid, signer, signature, body, createdAt, edits } = record;
  if (seq !== last.seq + 1n) {
    yield `expected number ${last.seq + 1n}, got ${seq}: push ${parent ?? 'none'}, which it names as the one before, is missing`;
  }
  if (body === null) return yield 'recorded by id only: there is nothing to verify';
  const publicKeys = trustedKeys.map((key) => key.publicKey);
  const check = verifyOpRecord({ pushId, body, trustedKeys: publicKeys });
  if (check.status === 'invalid') return yield check.reason;
  const retiredAt = trustedKeys.find((key) => key.publicKey.startsWith(check.publicKey))?.retiredAt ?? null;
  const signedAt = Number(check.seconds) * 1000;
  if (retiredAt !== null && signedAt > retiredAt.getTime() + ROUNDED_MS) {
    yield `it is signed by a key that was retired at ${retiredAt.toISOString()}`;
  }
  if (check.parent !== last.pushId || parent !== last.pushId) yield 'its parent is not the record before it';
  if (check.repoId !== repoId) yield `it was made for the repository ${check.repoId}`;
  if (check.seq !== seq) yield `it was signed as number ${check.seq}`;
  if (check.signer !== signer) yield 'its signer differs from the signed one';
  if (check.signature !== signature) yield 'its signature differs from the one that it holds';
  const isItsTime = (at: Date): boolean => Math.abs(at.getTime() - signedAt) <= ROUNDED_MS;
  if (!isItsTime(createdAt)) yield 'its time differs from the signed one';
  const late = edits.find((edit) => !isItsTime(edit.createdAt));
  if (late !== undefined) yield `the time of its edit of ${late.name} differs from the signed one`;
  const format = formatOf(pushId);
  const editsOid = hashObject(format, 'blob', Buffer.from(encodeEdits(format, edits)));
  if (hashObject(format, 'tree', encodeTree(editsOid, certOid)) !== check.tree) {
    yield 'its edits or certificate differ from the signed ones';
  }
}

/** What is signed is a whole second. */
const ROUNDED_MS = 1000;

/** Rows that no record of the repository accounts for, and that {@link iteratePushes} therefore never sees. */
async function readStrayEdits(db: Kysely<DB>, repoId: string): Promise<{ name: string; push_id: string }[]> {
  return await db
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
