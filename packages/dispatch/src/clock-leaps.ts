/**
 * Notices when the database's clock is set forward: by an NTP step, or because its machine was asleep. Every heartbeat
 * and claim of before then looks old at once, and whoever looked next would declare every dispatcher dead, itself
 * included: all effects that run would be aborted, an attempt of each spent. So time counts for all of them from the
 * leap on. Who lives beats again within its lease, and who had died is found one lease later.
 *
 * A leap is what this process did not live through itself, by its own clock, which is never set.
 */
export class ClockLeaps {
  readonly #leapMsMin: number;
  readonly #onLeap: (aheadMs: number) => void;
  #last: { databaseMs: number; at: number } | undefined;
  #countsFrom = -Infinity;

  /** Beyond `leapMsMin`, time that passed for the database only is a leap; below it, it may have been on the way. */
  constructor(options: { leapMsMin: number; onLeap: (aheadMs: number) => void }) {
    this.#leapMsMin = options.leapMsMin;
    this.#onLeap = options.onLeap;
  }

  /**
   * From when on time counts, by the database's clock. `databaseMs` is what that showed at some moment between `askedAt`
   * and `answeredAt` of this process's clock.
   */
  countsFrom(databaseMs: number, { askedAt, answeredAt }: { askedAt: number; answeredAt: number }): number {
    if (this.#last !== undefined) {
      const aheadMs = databaseMs - this.#last.databaseMs - (askedAt - this.#last.at);
      if (aheadMs > this.#leapMsMin) {
        this.#countsFrom = databaseMs;
        this.#onLeap(aheadMs);
      }
    }
    this.#last = { databaseMs, at: answeredAt };
    // It was set back again: what was counted from would be in the future.
    this.#countsFrom = Math.min(this.#countsFrom, databaseMs);
    return this.#countsFrom;
  }
}
