import { inspect } from 'node:util';
import type { Outcome } from '@sluice/queue-core/dispatcher';

/** How one run of an effect ended. */
export type RunResult =
  /** It gave an answer; `fail` is an answer too, and is not retried. */
  | { status: 'done'; outcome: Outcome; reason?: string; resultRef?: string }
  /** It was completed already, in the transaction that stored its result. */
  | { status: 'settled' }
  /** It gave no answer because of something around it: retried with back-off until its attempts are spent. */
  | { status: 'error'; message: string }
  /** It can never give one: dead at once. */
  | { status: 'poison'; message: string };

export interface RunContext {
  /** Aborted when the claim is lost or the grace of a stop is over; what the run returns after that is not believed. */
  signal: AbortSignal;
  /** Stores output. Wait for it: it resolves when there is room for more. Never rejects; what cannot be stored is lost. */
  log: (bytes: Uint8Array) => Promise<void>;
  /**
   * Stores at once what was logged so far. For a run that has its claim completed by someone else, before it does: a
   * closed claim takes no output. Never rejects, and returns soon even if the database does not answer.
   */
  flush: () => Promise<void>;
}

const OUTCOMES: Record<Outcome, true> = { pass: true, fail: true, timeout: true, remote: true };

/** What a run returned, if it is a result: without types it may be anything. Otherwise a failure that says so. */
export function checkedResult(returned: unknown): RunResult {
  if (isRunResult(returned)) return returned;
  const got = inspect(returned, { depth: 1, breakLength: Infinity, maxStringLength: 100 });
  return {
    status: isPoison(returned) ? 'poison' : 'error',
    message: `run: expected a result such as { status: 'done', outcome: 'pass' } or { status: 'error', message: 'why' }, got ${got}. Return one on every path.`,
  };
}

function isRunResult(value: unknown): value is RunResult {
  if (typeof value !== 'object' || value === null) return false;
  const { status, outcome, reason, resultRef, message } = value as Record<string, unknown>;
  if (status === 'done') return isOutcome(outcome) && isTextOrAbsent(reason) && isTextOrAbsent(resultRef);
  return status === 'settled' || ((status === 'error' || status === 'poison') && typeof message === 'string');
}

function isOutcome(value: unknown): boolean {
  return typeof value === 'string' && Object.hasOwn(OUTCOMES, value);
}

function isTextOrAbsent(value: unknown): boolean {
  return value === undefined || typeof value === 'string';
}

function isPoison(value: unknown): boolean {
  return (value as { status?: unknown } | null | undefined)?.status === 'poison';
}
