import { assertRepoId, assertText, assertWhole, invalid } from './assert-argument.ts';
import type { Claim, Outcome } from './claim.ts';
import { effectId } from './effect-id.ts';

/** How a caller ends its claim. */
export interface Completion {
  /** The default is `pass`. */
  outcome?: Outcome;
  /** A remark on the outcome, at most 10,000 bytes. */
  reason?: string;
  /** The ref that holds the result. */
  resultRef?: string;
}

const OUTCOMES = ['pass', 'fail', 'timeout', 'remote'] as const satisfies readonly Outcome[];
const INT4_MAX = 2_147_483_647;

/** Refuses what cannot be a claim. One that is well-formed but not open is no error but `stale`. */
export function checkClaim(claim: Claim, field = 'claim'): void {
  effectId(claim.effectId);
  if (typeof claim.claimNumber !== 'bigint' || claim.claimNumber < 1n || claim.claimNumber >= 2n ** 63n) {
    throw invalid(
      `${field}.claimNumber`,
      'a positive bigint',
      claim.claimNumber,
      'Pass the claim as it was returned.',
    );
  }
  assertRepoId(`${field}.repoId`, claim.repoId);
  assertWhole(`${field}.attempt`, claim.attempt, 1, INT4_MAX);
  assertText(`${field}.claimant`, claim.claimant, 200);
}

export function checkCompletion({ outcome, reason, resultRef }: Completion, field = ''): void {
  if (outcome !== undefined && !OUTCOMES.includes(outcome)) {
    throw invalid(`${field}outcome`, OUTCOMES.join(', '), outcome, 'Pass one of these.');
  }
  if (reason !== undefined) assertText(`${field}reason`, reason, 10_000);
  if (resultRef !== undefined) assertText(`${field}resultRef`, resultRef, 1024);
}
