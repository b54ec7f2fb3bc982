import type { Clock } from './clock.ts';

/** A bell that is remembered: one that rang while nobody waited ends the next wait at once. */
export class WakeUp {
  readonly #clock: Clock;
  #hasRung = false;
  #waiting: AbortController | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  ring(): void {
    // Rung for each effect that ends: an abort that changes nothing would still make an exception each time.
    if (this.#hasRung) return;
    this.#hasRung = true;
    this.#waiting?.abort();
  }

  /** Waits for the bell, at most `ms`; true when it rang. */
  async wait(ms: number): Promise<boolean> {
    if (!this.#hasRung) {
      this.#waiting = new AbortController();
      await this.#clock.sleep(ms, this.#waiting.signal);
      this.#waiting = undefined;
    }
    const hasRung = this.#hasRung;
    this.#hasRung = false;
    return hasRung;
  }
}
