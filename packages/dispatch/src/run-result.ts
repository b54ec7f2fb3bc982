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
