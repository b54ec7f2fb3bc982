import { setTimeout as sleep } from 'node:timers/promises';

const BOUND_MS = 120_000;
const POLL_MS = 25;

/** Looks until there is something, for as long as a loaded machine may need; fails with what was seen last. */
export async function until<T>(
  what: string,
  look: () => T | undefined | false | Promise<T | undefined | false>,
  lastWords: () => string = () => '',
): Promise<T> {
  const end = performance.now() + BOUND_MS;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > end)
      throw new Error(`expected within ${BOUND_MS} ms: ${what}\n${lastWords()}`.trim());
    await sleep(POLL_MS);
  }
}
