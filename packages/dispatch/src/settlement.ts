import { cleanReason, type ClaimedEffect, type Outcome } from '@sluice/queue-core/dispatcher';
import { backoffMs, type BackoffRange } from './backoff.ts';
import type { RunResult } from './run-result.ts';

/** How a claim is to be closed. Reason and error are clean. */
export type Settlement =
  | { kind: 'complete'; outcome: Outcome; reason?: string; resultRef?: string }
  | { kind: 'fail'; error: string; isPoison: boolean; retryInMs: number }
  | { kind: 'hand_back' };

/** What follows from the answer of a run that has not closed its claim itself. */
export function settlementOf(
  effect: ClaimedEffect,
  result: Exclude<RunResult, { status: 'settled' }>,
  retry: BackoffRange,
): Settlement {
  if (result.status === 'done') {
    const { outcome, reason = '', resultRef } = result;
    return {
      kind: 'complete',
      outcome,
      ...(reason.trim() === '' ? {} : { reason: cleanReason(reason) }),
      ...(resultRef === undefined ? {} : { resultRef }),
    };
  }
  return {
    kind: 'fail',
    error: cleanReason(result.message),
    isPoison: result.status === 'poison',
    retryInMs: backoffMs(effect.attempt, retry, Math.random()),
  };
}
