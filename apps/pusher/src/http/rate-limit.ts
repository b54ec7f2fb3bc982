const MINUTE_MS = 60_000;
/** Most names that are remembered. The one that was longest not there is forgotten first: most likely it may do all. */
const NAMES_MAX = 100_000;

/**
 * So many a minute for each name, all at once if it has been quiet for a minute: a token bucket each, kept as the
 * instant at which it is full again.
 */
export class RateLimit {
  readonly #msEach: number;
  readonly #fullAt = new Map<string, number>();

  constructor(perMinute: number) {
    this.#msEach = MINUTE_MS / perMinute;
  }

  /** Takes one; returns 0, or after how many milliseconds there is one to take. */
  take(name: string): number {
    const now = performance.now();
    const fullAt = Math.max(now, this.#fullAt.get(name) ?? 0) + this.#msEach;
    const early = fullAt - now - MINUTE_MS;
    // Tenths of a microsecond add up to nothing in a minute, but they do not add up to exactly one.
    if (early > 1e-6 * MINUTE_MS) return early;
    this.#fullAt.delete(name);
    this.#fullAt.set(name, fullAt);
    if (this.#fullAt.size > NAMES_MAX) this.#fullAt.delete(this.#fullAt.keys().next().value!);
    return 0;
  }

  giveBack(name: string): void {
    const fullAt = this.#fullAt.get(name);
    if (fullAt !== undefined) this.#fullAt.set(name, fullAt - this.#msEach);
  }
}
