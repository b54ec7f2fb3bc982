/**
 * The door for whoever drains the queue across all repositories: the one deliberate exception to the namespace rule,
 * because an effect waiting to run is not repository state.
 */
export { effectId, type EffectId } from './effect-id.ts';
export type { Claim, ClaimedEffect, Outcome } from './claim.ts';
export { fairClaim, type ClaimFinding, type FairClaim, type FairClaimOptions } from './fair-claim.ts';
export type { ClaimTurn } from './fair-claim-take.ts';
export { dispatcherClaim } from './dispatcher-claim.ts';
export { dispatcherComplete, dispatcherCompleteMany } from './dispatcher-complete.ts';
export { dispatcherClaimsOf } from './claims-of.ts';
