import * as operations from './dispatcher-operations.ts';
import { forAnyKysely } from './for-any-kysely.ts';

/**
 * The door for whoever drains the queue across all repositories: the one deliberate exception to the namespace rule,
 * because an effect waiting to run is not repository state.
 */
export const {
  appendLog,
  arrivalsAfter,
  countDeadRows,
  dispatcherClaim,
  dispatcherClaimsOf,
  dispatcherComplete,
  dispatcherCompleteMany,
  dispatcherFail,
  dispatcherFailMany,
  dispatcherHandBack,
  dispatcherRequeueStale,
  fairClaim,
  findEffect,
  finishedEffects,
  heartbeat,
  highestEffectId,
  maintainPartitions,
  oldestWaitingMs,
  promoteDue,
  queueByRepo,
  queueTotals,
  readLog,
  readyRepos,
  registerDispatcher,
  runningEffects,
  setSleeping,
  unregisterDispatcher,
  vacuumHotTable,
  waitingEffects,
} = forAnyKysely(operations);

export { isRepoId } from './assert-argument.ts';
export { cleanReason } from './clean-reason.ts';
export { effectId, type EffectId } from './effect-id.ts';
export { hearInProcess } from './neighbours.ts';
export { QUEUE_COUNT_MAX, type RepoQueue } from './queue-by-repo.ts';
export type { Arrival } from './arrivals.ts';
export type { Claim, ClaimedEffect, Outcome } from './claim.ts';
export type { ClaimFinding, FairClaim, FairClaimOptions } from './fair-claim.ts';
export type { ClaimTurn } from './fair-claim.ts';
export type { FinishedEffect, FinishedState } from './finished-effects.ts';
export type { Failure } from './dispatcher-fail.ts';
export type { FoundEffect } from './find-effect.ts';
export type { HotTable } from './vacuum-hot-tables.ts';
export type { LogChunk } from './append-log.ts';
export type { NewDispatcher } from './dispatcher-lease.ts';
export type { PartitionUpkeep } from './maintain-partitions.ts';
export type { Promotion } from './promote-due.ts';
export type { QueueTotals } from './queue-totals.ts';
export type { ReadyRepo } from './ready-repos.ts';
export type { RunningEffect } from './running-effects.ts';
export type { StoredChunk } from './read-log.ts';
export type { WaitingEffect } from './waiting-effects.ts';
export type { WaitReason } from './wait-reason.ts';
