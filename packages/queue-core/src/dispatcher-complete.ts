import { type DB } from '@sluice/db';
import type { Kysely } from 'kysely';
import { assertList } from './assert-argument.ts';
import { checkClaim, checkCompletion, type Completion } from './check-claim.ts';
import type { Claim, Outcome } from './claim.ts';
import { completeEffect } from './complete-effect.ts';
import { finishClaims } from './finish-claims.ts';

/** Most claims that one statement completes. */
const COMPLETE_MAX = 10_000;

/** Ends the effect of an open claim as `done`, whichever repo it belongs to; `stale` as for `completeEffect`. */
export async function dispatcherComplete(
  db: Kysely<DB>,
  claim: Claim,
  completion?: Completion,
): Promise<'completed' | 'stale'> {
  return await completeEffect(db, claim, completion);
}

/**
 * Completes up to 10,000 claims in one statement and returns the claim numbers that were accepted; each one missing
 * was stale. Of several completions of one claim the first counts.
 */
export async function dispatcherCompleteMany(
  db: Kysely<DB>,
  completions: readonly { claim: Claim; outcome: Outcome; reason?: string; resultRef?: string }[],
): Promise<bigint[]> {
  assertList('completions', completions, COMPLETE_MAX);
  for (const [index, completion] of completions.entries()) {
    checkClaim(completion.claim, `completions[${index}].claim`);
    checkCompletion(completion, `completions[${index}].`);
  }
  return await finishClaims(
    db,
    completions.map((completion) => ({ ...completion, state: 'done' })),
  );
}
