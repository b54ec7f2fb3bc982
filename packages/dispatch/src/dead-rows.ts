import type { HotTable } from '@sluice/queue-core/dispatcher';

/** Dead rows at which a table is worth a vacuum. */
const DEAD_MAX = 20_000;

/**
 * Decides which hot tables to vacuum. Autovacuum looks once a minute and no sooner, in which a fast queue leaves a
 * million dead rows: measured, a million effects made the tables 620 MB, of which the indexes keep a quarter for ever.
 *
 * A long transaction somewhere keeps dead rows from being removed, and each vacuum would walk over all of them in vain.
 * So what the last one left is remembered, and the next one waits until twice as many and {@link DEAD_MAX} more are there.
 */
export class DeadRows {
  readonly #left = new Map<HotTable, number>();

  /** Tables that have enough dead rows. */
  due(counts: ReadonlyMap<HotTable, number>): HotTable[] {
    const due: HotTable[] = [];
    for (const [name, dead] of counts) {
      // Somebody else has vacuumed meanwhile.
      const left = Math.min(this.#left.get(name) ?? 0, dead);
      this.#left.set(name, left);
      if (dead >= 2 * left + DEAD_MAX) due.push(name);
    }
    return due;
  }

  /** These tables have been vacuumed, and this is what is left. */
  vacuumed(names: readonly HotTable[], counts: ReadonlyMap<HotTable, number>): void {
    for (const name of names) this.#left.set(name, counts.get(name) ?? 0);
  }
}
