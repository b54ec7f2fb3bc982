import { forAnyKysely } from './for-any-kysely.ts';
import * as operations from './repo-operations.ts';

/**
 * The door for code that belongs to one repository: every call names the repo, and no call reaches another repo's rows.
 * Enqueueing runs inside the caller's own transaction, so that an effect exists exactly if what caused it does.
 */
export const {
  cancelEffects,
  claimEffects,
  completeEffect,
  enqueueEffect,
  enqueueEffects,
  findClaim,
  openClaim,
  opRecords,
  recordOp,
  rerunEffect,
  skipEffects,
} = forAnyKysely(operations);

export { effectId, type EffectId } from './effect-id.ts';
export type { Claim, ClaimedEffect, Outcome } from './claim.ts';
export type { Completion } from './check-claim.ts';
export type { Enqueued } from './enqueue-effects.ts';
export type { NewEffect } from './new-effect.ts';
export type { OpRecord } from './record-op.ts';
export type { SkippedEffect } from './skip-effects.ts';
