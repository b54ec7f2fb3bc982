import { setTimeout as delay } from 'node:timers/promises';

export interface RetryOptions {
  /** No new attempt begins later than this after the first. */
  boundMs: number;
  /** Whether another attempt may succeed. */
  isRetryable: (error: unknown) => boolean;
  signal?: AbortSignal;
  /** Told before each wait. */
  onRetry?: (retry: { error: unknown; attempt: number; waitMs: number }) => void;
  /** The longest first wait; it doubles up to {@link RetryOptions.lastWaitMs}. By default 100. */
  firstWaitMs?: number;
  /** By default 5,000. */
  lastWaitMs?: number;
  /** From 0 to 1; replaced in tests. */
  random?: () => number;
}

/**
 * Runs until it answers: repeats after errors that may pass, with exponential back-off and full jitter, within a bound.
 * Throws the last error when the bound is reached, or at once an error that cannot pass or the signal's reason.
 */
export async function untilAnswered<T>(
  run: (attempt: number) => Promise<T>,
  options: RetryOptions,
): Promise<T> {
  const {
    boundMs,
    isRetryable,
    signal,
    onRetry = () => {},
    firstWaitMs = 100,
    lastWaitMs = 5_000,
    random = Math.random,
  } = options;
  const startedAt = performance.now();
  for (let attempt = 1; ; attempt += 1) {
    signal?.throwIfAborted();
    try {
      return await run(attempt);
    } catch (error) {
      const waitMs = Math.ceil(Math.min(lastWaitMs, firstWaitMs * 2 ** (attempt - 1)) * random());
      if (!isRetryable(error) || performance.now() - startedAt + waitMs > boundMs) throw error;
      onRetry({ error, attempt, waitMs });
      await delay(waitMs, undefined, signal === undefined ? {} : { signal });
    }
  }
}
