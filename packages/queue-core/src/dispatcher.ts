/**
 * The door for whoever drains the queue across all repositories: the one deliberate exception to the namespace rule,
 * because an effect waiting to run is not repository state.
 */
export { isRepoId } from './assert-argument.ts';
export { arrivalsAfter, highestEffectId, type Arrival } from './arrivals.ts';
export { effectId, type EffectId } from './effect-id.ts';
export type { Claim, ClaimedEffect, Outcome } from './claim.ts';
export { fairClaim, type ClaimFinding, type FairClaim, type FairClaimOptions } from './fair-claim.ts';
export type { ClaimTurn } from './fair-claim-take.ts';
export { dispatcherClaim } from './dispatcher-claim.ts';
export { dispatcherComplete, dispatcherCompleteMany } from './dispatcher-complete.ts';
export { dispatcherClaimsOf } from './claims-of.ts';
export { appendLog, type LogChunk } from './append-log.ts';
export { dispatcherFail, type Failure } from './dispatcher-fail.ts';
export { dispatcherHandBack } from './dispatcher-hand-back.ts';
export {
  heartbeat,
  registerDispatcher,
  setSleeping,
  unregisterDispatcher,
  type NewDispatcher,
} from './dispatcher-lease.ts';
export { dispatcherRequeueStale } from './requeue-stale.ts';
export { findEffect, type FoundEffect } from './find-effect.ts';
export { finishedEffects, type FinishedEffect, type FinishedState } from './finished-effects.ts';
export { maintainPartitions, type PartitionUpkeep } from './maintain-partitions.ts';
export { promoteDue, type Promotion } from './promote-due.ts';
export { QUEUE_COUNT_MAX, queueByRepo, type RepoQueue } from './queue-by-repo.ts';
export { queueTotals, type QueueTotals } from './queue-totals.ts';
export { readLog, type StoredChunk } from './read-log.ts';
export { readyRepos, type ReadyRepo } from './ready-repos.ts';
export { runningEffects, type RunningEffect } from './running-effects.ts';
export type { WaitReason } from './wait-reason.ts';
export { countDeadRows, vacuumHotTable, type HotTable } from './vacuum-hot-tables.ts';
export { waitingEffects, type WaitingEffect } from './waiting-effects.ts';
