/** npm hands a terminal's Ctrl-C on to its child, which the terminal has told already: one key press, two signals. */
const SAME_KEY_PRESS_MS = 500;

/** An abort signal that SIGINT, SIGTERM and SIGHUP trip; `onHurry` hears of a second one. */
export function onInterrupt(onHurry: () => void): AbortSignal {
  const interrupted = new AbortController();
  let lastAt = Number.NEGATIVE_INFINITY;
  const hear = (): void => {
    const now = performance.now();
    if (now - lastAt < SAME_KEY_PRESS_MS) return;
    lastAt = now;
    if (interrupted.signal.aborted) onHurry();
    else interrupted.abort();
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, hear);
  return interrupted.signal;
}
