/** The least that a client has to send or take in so much time of waiting for it. */
export interface Pace {
  bytes: number;
  withinMs: number;
}

export const UPLOAD: Pace = { bytes: 16 * 1024, withinMs: 5_000 };
/** As much a second, over longer: what a client takes, the system passes on in lumps of up to some hundred kilobytes. */
export const DOWNLOAD: Pace = { bytes: 48 * 1024, withinMs: 15_000 };

/**
 * Judges how fast a client sends or takes, while others wait for what its request holds. Only time counts in which we
 * waited for the client; who is slow but honest has all the time as long as nobody waits.
 */
export class ClientPace {
  readonly #pace: Pace;
  readonly #isWanted: () => boolean;
  readonly #onTooSlow: () => void;
  #waitedMs = 0;
  #bytes = 0;
  #since = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(pace: Pace, options: { isWanted: () => boolean; onTooSlow: () => void }) {
    this.#pace = pace;
    this.#isWanted = options.isWanted;
    this.#onTooSlow = options.onTooSlow;
  }

  /** It is the client's turn from now on. */
  wait(): void {
    this.#since = performance.now();
    this.#timer = setTimeout(() => {
      this.count(0);
      this.wait();
    }, this.#pace.withinMs - this.#waitedMs);
  }

  /** The client sent or took so many bytes, or there is nothing more to wait for. */
  count(bytes: number): void {
    clearTimeout(this.#timer);
    this.#waitedMs += performance.now() - this.#since;
    this.#bytes += bytes;
    const isKept = this.#bytes >= this.#pace.bytes;
    if (!isKept && this.#waitedMs < this.#pace.withinMs - 1) return;
    this.#waitedMs = 0;
    this.#bytes = 0;
    if (!isKept && this.#isWanted()) this.#onTooSlow();
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}
