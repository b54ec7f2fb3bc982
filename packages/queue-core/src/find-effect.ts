import type { DB } from '@sluice/db';
import type { Kysely } from 'kysely';
import type { Outcome } from './claim.ts';
import type { EffectId } from './effect-id.ts';
import type { FinishedState } from './finished-effects.ts';
import type { WaitReason } from './wait-reason.ts';
import { waitingEffect } from './waiting-effects.ts';

/** Everything that is known about one effect. */
export interface FoundEffect {
  effectId: EffectId;
  repoId: string;
  name: string;
  payload: string;
  state: 'enqueued' | 'scheduled' | 'claimed' | FinishedState;
  outcome: Outcome | null;
  /** Why it is not done; of an unfinished one, why its last attempt did not finish. */
  reason: string | null;
  priority: number;
  /** Spent, the one that runs included. */
  attempts: number;
  maxAttempts: number;
  pushId: string | null;
  claimNumber: bigint | null;
  claimant: string | null;
  resultRef: string | null;
  runAt: Date | null;
  enqueuedAt: Date;
  claimedAt: Date | null;
  finishedAt: Date | null;
  /** Of one that is enqueued or scheduled. */
  waitsFor: WaitReason | null;
}

/** Finds an effect, unfinished or finished; `defaultCap` as for `waitingEffects`. */
export async function findEffect(
  db: Kysely<DB>,
  effectId: EffectId,
  { defaultCap }: { defaultCap?: number | undefined } = {},
): Promise<FoundEffect | undefined> {
  const row = await db.selectFrom('effect').selectAll().where('effect_id', '=', effectId).executeTakeFirst();
  if (row === undefined) return undefined;
  const state = row.state as FoundEffect['state'];
  const isWaiting = state === 'enqueued' || state === 'scheduled';
  const waiting = isWaiting ? await waitingEffect(db, effectId, defaultCap) : undefined;
  return {
    effectId,
    repoId: row.repo_id!,
    name: row.name!,
    payload: row.payload!,
    state,
    outcome: row.outcome as Outcome | null,
    reason: row.reason,
    priority: row.priority!,
    attempts: row.attempts!,
    maxAttempts: row.max_attempts!,
    pushId: row.push_id,
    claimNumber: row.claim_number === null ? null : BigInt(row.claim_number),
    claimant: row.claimant,
    resultRef: row.result_ref,
    runAt: row.run_at,
    enqueuedAt: row.enqueued_at!,
    claimedAt: row.claimed_at,
    finishedAt: row.finished_at,
    waitsFor: waiting?.waitsFor ?? null,
  };
}
