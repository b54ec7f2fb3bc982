import type { Logger } from './create-logger.ts';

export interface ShutdownOptions {
  log: Logger;
  /**
   * Ends the service. Called once without `hurry` at the first signal, and once more with it at the second; it must
   * then give up what it waits for. Both calls must settle.
   */
  stop: (how: { hurry: boolean }) => Promise<void>;
  /** How long the first call may take before it is hurried. */
  graceMs: number;
  /** How long the hurried call may take before the process ends anyway; by default 10,000. */
  hurryMs?: number;
  /** Replaced in tests. */
  process?: Pick<NodeJS.Process, 'on' | 'off' | 'exit'>;
  /** Monotonic milliseconds; replaced in tests. */
  now?: () => number;
}

/** npm hands a terminal's Ctrl-C to its child, which the terminal has told already: one key press, two signals. */
const SAME_KEY_PRESS_MS = 100;

type Signal = 'SIGINT' | 'SIGTERM';

/**
 * Stops the service at SIGTERM or SIGINT: the first signal drains, the second hurries, a third ends the process at once.
 * Exits with 0 after a drain, 1 if stopping failed or took too long, 130 (SIGINT) or 143 (SIGTERM) when hurried.
 *
 * @returns a function that takes the handlers off again.
 */
export function onShutdown(options: ShutdownOptions): () => void {
  const {
    log,
    stop,
    graceMs,
    hurryMs = 10_000,
    process: host = process,
    now = () => performance.now(),
  } = options;
  let signals = 0;
  let lastSignalAt = Number.NEGATIVE_INFINITY;
  let timer: NodeJS.Timeout | undefined;

  const finish = (code: number): void => {
    clearTimeout(timer);
    host.exit(code);
  };
  const failed = (error: unknown): void => {
    log.error({ event: 'shutdown_failed', error });
    finish(1);
  };
  const hurry = (code: number): void => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      log.error({ event: 'shutdown_timed_out', hurry_ms: hurryMs });
      finish(code);
    }, hurryMs);
    stop({ hurry: true }).then(() => finish(code), failed);
  };
  const onSignal = (signal: Signal): void => {
    if (now() - lastSignalAt < SAME_KEY_PRESS_MS) return;
    lastSignalAt = now();
    signals += 1;
    const code = signal === 'SIGINT' ? 130 : 143;
    log.info({ event: signals === 1 ? 'shutdown_started' : 'shutdown_hurried', signal });
    if (signals === 1) {
      timer = setTimeout(() => {
        log.warn({ event: 'shutdown_grace_over', grace_ms: graceMs });
        signals = 2;
        hurry(1);
      }, graceMs);
      // A hurried stop decides the exit code itself.
      stop({ hurry: false }).then(() => signals === 1 && finish(0), failed);
    } else if (signals === 2) {
      hurry(code);
    } else {
      finish(code);
    }
  };
  host.on('SIGINT', onSignal);
  host.on('SIGTERM', onSignal);
  return () => {
    clearTimeout(timer);
    host.off('SIGINT', onSignal);
    host.off('SIGTERM', onSignal);
  };
}
