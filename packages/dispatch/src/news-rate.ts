import type { Clock } from './clock.ts';

/** Effects per second at which enqueues should be spared the notification, and at which they may send it again. */
const BUSY_PER_SECOND = 150;
const QUIET_PER_SECOND = 50;
/** How long the past counts. */
const MEMORY_MS = 500;

/**
 * How fast effects arrive. While one commits that notifies, no other can, so that notifications would limit enqueues to
 * one for each time the disk is flushed: beyond the rate at which that could be felt, nobody should ask for them.
 */
export class NewsRate {
  readonly #clock: Clock;
  #perSecond = 0;
  #at: number;
  #isBusy = false;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#at = clock.now();
  }

  note(count: number): void {
    this.#fade();
    this.#perSecond += (1_000 * count) / MEMORY_MS;
  }

  get isBusy(): boolean {
    this.#fade();
    this.#isBusy = this.#perSecond > (this.#isBusy ? QUIET_PER_SECOND : BUSY_PER_SECOND);
    return this.#isBusy;
  }

  #fade(): void {
    const now = this.#clock.now();
    this.#perSecond *= Math.exp((this.#at - now) / MEMORY_MS);
    this.#at = now;
  }
}
