import type { ClaimedEffect, Outcome } from '@sluice/queue-core/dispatcher';
import { backoffMs, type BackoffRange } from './backoff.ts';
import type { RunResult } from './run-result.ts';
import { storableText } from './storable-text.ts';

/** How a claim is to be closed. */
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
    const { outcome, reason, resultRef } = result;
    return {
      kind: 'complete',
      outcome,
      ...(reason === undefined ? {} : { reason }),
      ...(resultRef === undefined ? {} : { resultRef }),
    };
  }
  return {
    kind: 'fail',
    error: storableText(result.message),
    isPoison: result.status === 'poison',
    retryInMs: backoffMs(effect.attempt, retry, Math.random()),
  };
}
