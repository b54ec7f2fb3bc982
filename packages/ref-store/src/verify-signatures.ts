import type { DB } from '@sluice/db';
import type { Kysely } from 'kysely';
import { PROBLEMS_MAX, type FoundProblem } from './found-problem.ts';
import { iteratePushes, type LoggedPush } from './iterate-pushes.ts';
import type { ReplayedLog } from './replay-log.ts';
import type { VerifyLogOptions } from './verify-log.ts';
import { verifyOpRecord } from './verify-op-record.ts';

/** Most pushes whose signatures are being checked; each has one `ssh-keygen` at a time, of some milliseconds. */
const PUSHES_AT_ONCE = 8;
const PROGRESS_RECORDS = 10;

/** Checks what is signed of each push of the log, and names what cannot be read as such. */
export async function verifySignatures(
  db: Kysely<DB>,
  options: VerifyLogOptions,
  { records, lastSeq }: ReplayedLog,
): Promise<FoundProblem[]> {
  const { repoId, onProgress, signal } = options;
  const problems: FoundProblem[] = [];
  const checks: { push: LoggedPush; faults: Promise<string[]> }[] = [];
  let checked = 0;
  const finishOne = async (): Promise<void> => {
    const { push, faults } = checks[0]!;
    for (const problem of await faults) {
      if (problems.length < PROBLEMS_MAX) problems.push({ seq: push.seq, pushId: push.pushId, problem });
    }
    checks.shift();
    signal?.throwIfAborted();
    if (checked % PROGRESS_RECORDS === 0)
      onProgress?.({ step: 'signatures', records: checked, total: BigInt(records) });
    checked++;
  };
  try {
    for await (const push of iteratePushes(db, { repoId })) {
      if (push.seq > lastSeq) break;
      const faults = faultsOf(db, push, options);
      // Heard of when it is its turn.
      faults.catch(() => undefined);
      checks.push({ push, faults });
      if (checks.length === PUSHES_AT_ONCE) await finishOne();
    }
    while (checks.length > 0) await finishOne();
  } finally {
    // Nothing of it runs on when this has ended early.
    await Promise.allSettled(checks.map(({ faults }) => faults));
  }
  if (checked === records) return problems;
  const problem = `${records} pushes were read, but then the signatures of ${checked}: the log was changed meanwhile`;
  return [...problems, { seq: null, pushId: null, problem }];
}

async function faultsOf(db: Kysely<DB>, push: LoggedPush, options: VerifyLogOptions): Promise<string[]> {
  const own = await faultOfRecord(push, options);
  const others = (await options.alsoSigned?.(db, push)) ?? [];
  return own === null ? others : [own, ...others];
}

async function faultOfRecord(
  { pushId, body }: LoggedPush,
  { trustedKeys }: VerifyLogOptions,
): Promise<string | null> {
  if (body === null) return 'recorded by id only: there is nothing to verify';
  const publicKeys = trustedKeys.map(({ publicKey }) => publicKey);
  const check = await verifyOpRecord({ pushId, body, trustedKeys: publicKeys });
  return check.status === 'invalid' ? check.reason : null;
}
