export { cancelEffects } from './cancel-effects.ts';
export { claimEffects } from './claim-effects.ts';
export { completeEffect } from './complete-effect.ts';
export { enqueueEffect } from './enqueue-effect.ts';
export { enqueueEffects } from './enqueue-effects.ts';
export { findClaim, openClaim } from './open-claim.ts';
export { opRecords, recordOp } from './record-op.ts';
export { rerunEffect } from './rerun-effect.ts';
export { skipEffects } from './skip-effects.ts';
