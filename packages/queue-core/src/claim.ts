import type { EffectId } from './effect-id.ts';

/** One attempt at an effect, held by a claimant. All five fields together are the fence that completion checks. */
export interface Claim {
  effectId: EffectId;
  repoId: string;
  /** Never reused; names this attempt in logs and URLs. */
  claimNumber: bigint;
  /** From 1. */
  attempt: number;
  /** A dispatcher's id, or the name that a caller of the repo-scoped claim gave. */
  claimant: string;
}

/** What a claimant needs in order to run an effect. */
export interface ClaimedEffect extends Claim {
  name: string;
  payload: string;
  maxAttempts: number;
  /** The push that caused it. */
  pushId: string | null;
}

/** How a finished attempt ended. `fail` is an answer; an infrastructure error is not an outcome but a retry. */
export type Outcome = 'pass' | 'fail' | 'timeout' | 'remote';

/** A claim's row joined with its effect's, as the claim statements return it. */
export interface ClaimedRow {
  effect_id: string;
  repo_id: string;
  claim_number: string;
  attempt: number;
  claimant: string;
  name: string;
  payload: string;
  max_attempts: number;
  push_id: string | null;
}

export function toClaimedEffect(row: ClaimedRow): ClaimedEffect {
  return {
    effectId: BigInt(row.effect_id) as EffectId,
    repoId: row.repo_id,
    claimNumber: BigInt(row.claim_number),
    attempt: row.attempt,
    claimant: row.claimant,
    name: row.name,
    payload: row.payload,
    maxAttempts: row.max_attempts,
    pushId: row.push_id,
  };
}
