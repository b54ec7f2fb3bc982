import type { DB } from '@sluice/db';
import { decodeWorkOrder } from '@sluice/effect-spec';
import { completeEffect, openClaim, type ClaimedEffect } from '@sluice/queue-core/repo';
import type { Transaction } from 'kysely';
import { PushRefused } from './push-refused.ts';
import type { PushToCommit } from './push-to-commit.ts';

/** The claim that a result push is for; throws {@link PushRefused} unless it is open and the result is its own. */
export async function checkClaim(trx: Transaction<DB>, push: PushToCommit): Promise<ClaimedEffect> {
  const { claimNumber, content } = push.result!;
  const claim = await openClaim(trx, { repoId: push.repoId, claimNumber });
  if (claim === undefined)
    throw new PushRefused(`claim ${claimNumber} is gone: it was completed, requeued or never made`);
  const decoded = decodeWorkOrder(claim.payload);
  if ('problem' in decoded) throw new PushRefused(`claim ${claimNumber}: ${decoded.problem}`);
  const [edit, ...others] = push.edits;
  if (others.length > 0 || edit?.name !== decoded.order.resultRef || edit.to === null) {
    throw new PushRefused(`expected ${decoded.order.resultRef} alone to be set for claim ${claimNumber}`);
  }
  if (content.effectId !== String(claim.effectId) || content.attempt !== claim.attempt) {
    throw new PushRefused(
      `result.json: expected effect ${claim.effectId} attempt ${claim.attempt}, got effect ${content.effectId} attempt ${content.attempt}`,
    );
  }
  return claim;
}

/** Closes the claim, in the transaction that stores its result. */
export async function settleClaim(
  trx: Transaction<DB>,
  claim: ClaimedEffect,
  push: PushToCommit,
): Promise<void> {
  const { outcome, reason } = push.result!.content;
  const completed = await completeEffect(trx, claim, {
    outcome,
    resultRef: push.edits[0]!.name,
    ...(reason === null ? {} : { reason }),
  });
  if (completed === 'stale') throw new PushRefused(`claim ${claim.claimNumber} is gone`);
}

/** How many effects stand between a person's push and the one that was claimed. */
export function hopsOf(claim: ClaimedEffect): number {
  const decoded = decodeWorkOrder(claim.payload);
  return 'order' in decoded ? decoded.order.hops : 0;
}
