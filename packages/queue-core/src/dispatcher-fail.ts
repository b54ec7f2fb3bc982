import { table, type DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import { invalid } from './assert-argument.ts';
import { checkClaim } from './check-claim.ts';
import type { Claim } from './claim.ts';
import { cleanReason } from './clean-reason.ts';
import { finishClaims } from './finish-claims.ts';

export interface Failure {
  claim: Claim;
  /** What went wrong; stored with control characters escaped and cut to 2,000 characters. */
  error: string;
  /** Not before this long from now; longer than 30 days counts as 30 days. */
  retryInMs: number;
  /** No other attempt could succeed: dead at once, whatever attempts are left. */
  isPoison?: boolean | undefined;
}

const RETRY_MS_MAX = 30 * 24 * 3_600_000;

/**
 * Ends an attempt that brought no answer: the sandbox would not start, the machine was lost. The attempt is spent. With
 * attempts left the effect is `scheduled` again, otherwise it is `dead`, with its reason. `stale`: the claim is no
 * longer the caller's, and nothing was changed.
 */
export async function dispatcherFail(
  db: Kysely<DB>,
  { claim, error, retryInMs, isPoison = false }: Failure,
): Promise<'scheduled' | 'dead' | 'stale'> {
  checkClaim(claim);
  if (typeof error !== 'string') throw invalid('error', 'text', error, 'Pass the message of the error.');
  if (!(retryInMs >= 0))
    throw invalid('retryInMs', 'a duration of 0 or more', retryInMs, 'Pass 0 to retry at once.');
  const reason = cleanReason(error);
  if (!isPoison && (await retryLater(db, claim, reason, Math.min(Math.ceil(retryInMs), RETRY_MS_MAX)))) {
    return 'scheduled';
  }
  const accepted = await finishClaims(db, [{ claim, state: 'dead', reason }]);
  return accepted.length > 0 ? 'dead' : 'stale';
}

/** False: the claim is stale, or this was the last attempt. */
async function retryLater(db: Kysely<DB>, claim: Claim, reason: string, retryInMs: number): Promise<boolean> {
  const { rows } = await sql`
    with closed as (
      delete from ${table('effect_claim')} c
       where c.claim_number = ${claim.claimNumber} and c.effect_id = ${claim.effectId} and c.repo_id = ${claim.repoId}
         and c.attempt = ${claim.attempt} and c.claimant = ${claim.claimant}
         and c.attempt < (select q.max_attempts from ${table('effect_queue')} q where q.effect_id = ${claim.effectId})
      returning c.effect_id
    )
    update ${table('effect_queue')} q
       set attempts = ${claim.attempt}::int, last_error = ${reason},
           run_at = clock_timestamp() + ${retryInMs}::float8 * interval '1 millisecond'
     where q.effect_id = (select effect_id from closed)
    returning q.effect_id`.execute(db);
  return rows.length > 0;
}
