import { bounded, type Clock } from './clock.ts';

/**
 * Calls of one kind to the database. Each fails when it takes longer than its bound; but the statement goes on, and has
 * its connection, until the server answers. So no more than a few are under way at once, the given-up ones included: what
 * one kind waits for (a lock that somebody holds for long) does not take the connections of the others. One that is
 * given up before it began is forgotten, with all that it would have sent.
 */
export class BoundedCalls {
  readonly #clock: Clock;
  readonly #underWayMax: number;
  #underWay = 0;
  /** What lets each of the others begin, in order. */
  readonly #waiting = new Set<() => void>();

  /**
   * `underWayMax`: one more than are made at once, so that there is one left to show whether the database answers when
   * those were lost with their connections. The default is for a user that makes one after the other.
   */
  constructor(clock: Clock, underWayMax = 2) {
    this.#clock = clock;
    this.#underWayMax = underWayMax;
  }

  async run<T>(ms: number, what: string, work: () => Promise<T>): Promise<T> {
    const turn = Promise.withResolvers<void>();
    if (this.#underWay < this.#underWayMax) {
      this.#underWay += 1;
      turn.resolve();
    } else this.#waiting.add(turn.resolve);
    try {
      return await bounded(this.#clock, ms, what, this.#inTurn(turn.promise, work));
    } finally {
      this.#waiting.delete(turn.resolve);
    }
  }

  async #inTurn<T>(turn: Promise<void>, work: () => Promise<T>): Promise<T> {
    await turn;
    try {
      return await work();
    } finally {
      const [next] = this.#waiting;
      if (next === undefined) this.#underWay -= 1;
      else {
        this.#waiting.delete(next);
        next();
      }
    }
  }
}
