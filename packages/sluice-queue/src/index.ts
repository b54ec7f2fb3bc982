/**
 * The queue for a program of your own: everything that it needs, and nothing of the rest of Sluice.
 *
 * Every function that takes a `db` takes what {@link sluice} makes of your Kysely instance or transaction, or what
 * {@link createDatabase} returns, and throws {@link SluiceError} for what a caller can mend.
 */
import * as reader from '@sluice/queue-core/dispatcher';
import * as writer from '@sluice/queue-core/repo';

export {
  assertUsable,
  createDatabase,
  migrate,
  migrationSql,
  sluice,
  SluiceError,
  type DatabaseOptions,
  type DB,
  type ErrorCode,
} from '@sluice/db';

export {
  startDispatcher,
  typedPayload,
  type Clock,
  type DispatcherOptions,
  type DispatcherStats,
  type DispatchEvent,
  type EffectEnd,
  type RunContext,
  type RunningDispatcher,
  type RunResult,
  type StandardIssue,
  type StandardResult,
  type StandardSchemaV1,
  type TypedPayload,
} from '@sluice/dispatch';

/** Enqueues one effect, in your transaction if `db` is one, and returns its id; with a dedup key in force, its holder's. */
export const enqueueEffect: typeof writer.enqueueEffect = writer.enqueueEffect;

/** Enqueues up to 100,000 effects with a constant number of statements, and says what became of each. */
export const enqueueEffects: typeof writer.enqueueEffects = writer.enqueueEffects;

/** Cancels effects of a repo that wait, and returns the ids of those that were cancelled. */
export const cancelEffects: typeof writer.cancelEffects = writer.cancelEffects;

/** Enqueues a finished effect once more, and returns the new one's id. */
export const rerunEffect: typeof writer.rerunEffect = writer.rerunEffect;

/**
 * Locks the claim that an effect runs under until your transaction ends; `undefined` if it is lost. With
 * {@link completeEffect} behind it, what the run writes and its completion commit together: return `settled` then.
 */
export const openClaim: typeof writer.openClaim = writer.openClaim;

/** Completes the effect of a claim, in your transaction if `db` is one; `stale`: the claim was lost and nothing changed. */
export const completeEffect: typeof writer.completeEffect = writer.completeEffect;

/** Brings an effect's id back from text or a plain `bigint`. */
export const effectId: typeof reader.effectId = reader.effectId;

/** Everything that is known about one effect, and while it waits, what for. */
export const findEffect: typeof reader.findEffect = reader.findEffect;

/** Effects that wait, in the order in which their repo will run them, each with what it waits for. */
export const waitingEffects: typeof reader.waitingEffects = reader.waitingEffects;

/** Effects that run now, and who runs them. */
export const runningEffects: typeof reader.runningEffects = reader.runningEffects;

/** The newest effects that are done, dead, cancelled, superseded or skipped. */
export const finishedEffects: typeof reader.finishedEffects = reader.finishedEffects;

/** Where each repo with unfinished effects stands: waiting, running, its limits, its longest wait. */
export const queueByRepo: typeof reader.queueByRepo = reader.queueByRepo;

/** The queue as a whole. */
export const queueTotals: typeof reader.queueTotals = reader.queueTotals;

/** What an effect's runs logged. */
export const readLog: typeof reader.readLog = reader.readLog;

export type {
  Claim,
  ClaimedEffect,
  EffectId,
  FinishedEffect,
  FinishedState,
  FoundEffect,
  Outcome,
  QueueTotals,
  RepoQueue,
  RunningEffect,
  StoredChunk,
  WaitingEffect,
  WaitReason,
} from '@sluice/queue-core/dispatcher';

export type { Completion, Enqueued, NewEffect } from '@sluice/queue-core/repo';
