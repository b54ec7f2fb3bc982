import type { DB } from '@sluice/db';
import type { Kysely } from 'kysely';
import { assertList, invalid } from './assert-argument.ts';
import { checkClaim } from './check-claim.ts';
import type { Claim } from './claim.ts';
import { cleanReason } from './clean-reason.ts';
import { closeClaims, type Finish } from './finish-claims.ts';

export interface Failure {
  claim: Claim;
  /** What went wrong; stored with control characters escaped and cut to 2,000 characters. */
  error: string;
  /** Not before this long from now; longer than 30 days counts as 30 days. */
  retryInMs: number;
  /** No other attempt could succeed: dead at once, whatever attempts are left. */
  isPoison?: boolean | undefined;
}

/** What became of the effect; `stale`: the claim is no longer the caller's, and nothing was changed. */
export type FailureEnd = 'scheduled' | 'dead' | 'stale';

const RETRY_MS_MAX = 30 * 24 * 3_600_000;
/** Most claims that one statement fails. */
const FAIL_MAX = 10_000;

/**
 * Ends an attempt that brought no answer: the sandbox would not start, the machine was lost. The attempt is spent. With
 * attempts left the effect is `scheduled` again, otherwise it is `dead`, with its reason.
 */
export async function dispatcherFail(db: Kysely<DB>, failure: Failure): Promise<FailureEnd> {
  const [end] = await closeFailed(db, [finishOf(failure)]);
  return end!;
}

/**
 * The same for up to 10,000 claims, in one statement, with the ends in the order of the failures. Of several failures of
 * one claim the first counts.
 */
export async function dispatcherFailMany(
  db: Kysely<DB>,
  failures: readonly Failure[],
): Promise<FailureEnd[]> {
  assertList('failures', failures, FAIL_MAX);
  return await closeFailed(
    db,
    failures.map((failure, index) => finishOf(failure, `failures[${index}].`)),
  );
}

function finishOf({ claim, error, retryInMs, isPoison = false }: Failure, field = ''): Finish {
  checkClaim(claim, `${field}claim`);
  if (typeof error !== 'string')
    throw invalid(`${field}error`, 'text', error, 'Pass the message of the error.');
  if (!(retryInMs >= 0))
    throw invalid(`${field}retryInMs`, 'a duration of 0 or more', retryInMs, 'Pass 0 to retry at once.');
  return {
    claim,
    state: 'dead',
    reason: cleanReason(error),
    ...(isPoison ? {} : { retryInMs: Math.min(Math.ceil(retryInMs), RETRY_MS_MAX) }),
  };
}

async function closeFailed(db: Kysely<DB>, finishes: readonly Finish[]): Promise<FailureEnd[]> {
  const closed = await closeClaims(db, finishes);
  return finishes.map(({ claim: { claimNumber } }) => {
    const end = closed.get(claimNumber);
    closed.delete(claimNumber);
    if (end === undefined) return 'stale';
    return end === 'finished' ? 'dead' : end;
  });
}
