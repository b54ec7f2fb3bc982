/**
 * The door for code that belongs to one repository: every call names the repo, and no call reaches another repo's rows.
 * Enqueueing runs inside the caller's own transaction, so that an effect exists exactly if what caused it does.
 */
export { effectId, type EffectId } from './effect-id.ts';
export type { Claim, ClaimedEffect, Outcome } from './claim.ts';
export { cancelEffects } from './cancel-effects.ts';
export { enqueueEffect } from './enqueue-effect.ts';
export { enqueueEffects, type Enqueued } from './enqueue-effects.ts';
export type { NewEffect } from './new-effect.ts';
export { skipEffects, type SkippedEffect } from './skip-effects.ts';
export type { Completion } from './check-claim.ts';
export { claimEffects } from './claim-effects.ts';
export { completeEffect } from './complete-effect.ts';
export { openClaim } from './open-claim.ts';
export { rerunEffect } from './rerun-effect.ts';
export { opRecords, recordOp, type OpRecord } from './record-op.ts';
