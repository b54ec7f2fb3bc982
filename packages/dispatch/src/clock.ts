/** The one source of time in this package: monotonic milliseconds, and waiting. Who owns a claim is never judged by it. */
export interface Clock {
  now(): number;
  /** Resolves after `ms`, or as soon as the signal is aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** Longer timers than this are clamped to 1 ms by Node. */
const SLEEP_MS_MAX = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => performance.now(),
  sleep: async (ms, signal) => {
    if (signal?.aborted === true) return;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', done);
        resolve();
      };
      const timer = setTimeout(done, Math.min(Math.max(0, ms), SLEEP_MS_MAX));
      signal?.addEventListener('abort', done);
    });
  },
};

/**
 * What the promise gives, or an error after `ms`. The work itself goes on, and its late result is dropped: for calls
 * to a database that may never answer.
 */
export async function bounded<T>(clock: Clock, ms: number, what: string, work: Promise<T>): Promise<T> {
  const finished = new AbortController();
  const timeout = clock.sleep(ms, finished.signal).then(() => {
    if (!finished.signal.aborted) throw new Error(`timeout expired: ${what} took longer than ${ms} ms`);
    return undefined as never;
  });
  try {
    return await Promise.race([work, timeout]);
  } finally {
    finished.abort();
    timeout.catch(() => undefined);
    work.catch(() => undefined);
  }
}
