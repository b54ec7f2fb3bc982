import { inBoundedTransaction, type DB } from '@sluice/db';
import type { Kysely } from 'kysely';
import { assertList, assertRepoId, assertText } from './assert-argument.ts';
import { closeWaiting } from './close-waiting.ts';
import { effectId, type EffectId } from './effect-id.ts';
import { lockTurns } from './turn-lock.ts';

const CANCEL_MAX = 10_000;

/**
 * Cancels waiting effects of a repo (enqueued or scheduled) and returns the ids that were. One that is claimed runs on;
 * one that is finished, unknown or another repo's is left alone. Their dedup keys are free afterwards.
 */
export async function cancelEffects(
  db: Kysely<DB>,
  request: { repoId: string; effectIds: readonly EffectId[]; reason: string },
): Promise<EffectId[]> {
  const { repoId, effectIds, reason } = request;
  assertRepoId('repoId', repoId);
  assertList('effectIds', effectIds, CANCEL_MAX);
  assertText('reason', reason, 2000);
  const reasons = new Map(effectIds.map((id) => [effectId(id), reason]));
  if (reasons.size === 0) return [];
  const cancelled = await inBoundedTransaction(db, async (trx) => {
    await lockTurns(trx, [repoId]);
    return await closeWaiting(trx, { repoIds: [repoId], state: 'cancelled', reasons });
  });
  return cancelled as EffectId[];
}
