import { type DB } from '@sluice/db';
import type { Kysely } from 'kysely';
import { checkClaim, checkCompletion, type Completion } from './check-claim.ts';
import type { Claim } from './claim.ts';
import { finishClaims } from './finish-claims.ts';

/**
 * Ends the effect of an open claim as `done`. `stale`: the claim was lost, completed before or never was, and nothing
 * changed. Runs in the caller's transaction, so that a result and its completion commit together.
 */
export async function completeEffect(
  db: Kysely<DB>,
  claim: Claim,
  completion: Completion = {},
): Promise<'completed' | 'stale'> {
  checkClaim(claim);
  checkCompletion(completion);
  const { outcome = 'pass', reason, resultRef } = completion;
  const accepted = await finishClaims(db, [{ claim, state: 'done', outcome, reason, resultRef }]);
  return accepted.length === 1 ? 'completed' : 'stale';
}
