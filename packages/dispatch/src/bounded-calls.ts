import { bounded, type Clock } from './clock.ts';
import { Permits } from './permits.ts';

/** One may be lost with its connection; a second one shows whether the database answers at all. */
const UNDER_WAY_MAX = 2;

/**
 * Calls of one kind to the database. Each fails when it takes longer than its bound; but the statement goes on, and has
 * its connection, until the server answers. So no more than two are under way at once, the given-up ones included: what
 * one kind waits for (a lock that somebody holds for long) does not take the connections of the others, least of all
 * that of the heartbeat.
 */
export class BoundedCalls {
  readonly #clock: Clock;
  readonly #permits = new Permits(UNDER_WAY_MAX);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  async run<T>(ms: number, what: string, work: () => Promise<T>): Promise<T> {
    let isGivenUp = false;
    const call = this.#permits.with(async () => {
      if (isGivenUp) throw new Error(`given up before it began: ${what}`);
      return await work();
    });
    try {
      return await bounded(this.#clock, ms, what, call);
    } finally {
      isGivenUp = true;
    }
  }
}
