import { setImmediate as othersFirst } from 'node:timers/promises';

/** Does work that comes in turns to its end, with everybody else's work between each two of them. */
export async function inTurns<T>(work: Generator<undefined, T>): Promise<T> {
  for (;;) {
    const turn = work.next();
    if (turn.done === true) return turn.value;
    await othersFirst();
  }
}
