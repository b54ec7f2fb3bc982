import { setTimeout as sleep } from 'node:timers/promises';

const BOUND_MS = 20_000;

/** Looks again and again until the condition holds; fails with `what` after 20 s. */
export async function until(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + BOUND_MS;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`expected within ${BOUND_MS} ms: ${what}`);
    await sleep(15);
  }
}
