/** Over how much waiting for a client its pace is judged, and the least it has to send in that time. */
const WINDOW_MS = 5_000;
const BYTES_MIN = 16 * 1024;

/**
 * Judges how fast a client sends, while others wait for what its request holds. Only time counts in which we waited for
 * the client; a slow but honest upload has all its time as long as nobody waits.
 */
export class UploadPace {
  readonly #isWanted: () => boolean;
  readonly #onTooSlow: () => void;
  #waitedMs = 0;
  #bytes = 0;
  #since = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: { isWanted: () => boolean; onTooSlow: () => void }) {
    this.#isWanted = options.isWanted;
    this.#onTooSlow = options.onTooSlow;
  }

  /** The client owes bytes from now on. */
  wait(): void {
    this.#since = performance.now();
    this.#timer = setTimeout(() => {
      this.arrive(0);
      this.wait();
    }, WINDOW_MS - this.#waitedMs);
  }

  /** The client sent so many bytes, or there is nothing more to wait for. */
  arrive(bytes: number): void {
    clearTimeout(this.#timer);
    this.#waitedMs += performance.now() - this.#since;
    this.#bytes += bytes;
    if (this.#waitedMs < WINDOW_MS - 1) return;
    const isTooSlow = this.#bytes < BYTES_MIN;
    this.#waitedMs = 0;
    this.#bytes = 0;
    if (isTooSlow && this.#isWanted()) this.#onTooSlow();
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}
