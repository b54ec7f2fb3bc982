import type { DB } from '@sluice/db';
import type { Kysely } from 'kysely';
import { inOrderOfTheLog, PROBLEMS_MAX, type LogProblem } from './found-problem.ts';
import type { LoggedPush } from './iterate-pushes.ts';
import type { Oid } from './oid.ts';
import type { RegisteredKey } from './register-server-key.ts';
import { replayLog } from './replay-log.ts';
import { verifySignatures } from './verify-signatures.ts';

/** What {@link verifyLog} found. */
export interface LogCheck {
  /** Op records looked at. */
  records: number;
  /** Empty: the log is whole, and the refs are what it says. At most 100 are listed, in the order of the log. */
  problems: LogProblem[];
}

export interface VerifyLogOptions {
  repoId: string;
  /** Keys that may have signed, retired ones until they were. */
  trustedKeys: readonly Pick<RegisteredKey, 'publicKey' | 'retiredAt'>[];
  /**
   * What else has to hold for a push, besides what is signed. Called for each, one after another in the order of the
   * log, with the refs as they were before it.
   */
  alsoCheck?: (db: Kysely<DB>, push: LoggedPush, refs: ReadonlyMap<string, Oid>) => Promise<string[]>;
  /** What else is signed besides a push's record. Called for several pushes at once. */
  alsoSigned?: (db: Kysely<DB>, push: LoggedPush) => Promise<string[]>;
  /** Called now and then with the number of op records looked at, and of those there are. */
  onProgress?: (progress: LogProgress) => void;
  /** Ends it with the signal's reason. */
  signal?: AbortSignal;
}

export interface LogProgress {
  /** The log is read first, then its signatures are checked, which takes longer. */
  step: 'log' | 'signatures';
  records: number;
  total: bigint;
}

/**
 * Recomputes a repository's history: each op record is signed by a trusted key (`ssh-keygen` says so) and follows the
 * one before it, lists exactly the edits of the reflog, and all edits together give the present refs. So a row that was
 * changed by hand is found; the first problem is where the log stops to fit. Log, reflog and refs are read at one
 * instant. Signatures are checked after it, so that the snapshot is not held for a process per record. Holds one entry
 * per ref in memory. Throws `ssh_keygen_unusable`.
 */
export async function verifyLog(db: Kysely<DB>, options: VerifyLogOptions): Promise<LogCheck> {
  const snapshot = db.transaction().setIsolationLevel('repeatable read').setAccessMode('read only');
  const log = await snapshot.execute((inside) => replayLog(inside, options));
  const signatures = await verifySignatures(db, options, log);
  const found = [...log.problems, ...signatures].toSorted(inOrderOfTheLog);
  return {
    records: log.records,
    problems: found.slice(0, PROBLEMS_MAX).map(({ pushId, problem }) => ({ pushId, problem })),
  };
}
