/** Counts how often each effect ran. Effects are numbered from 0. */
export class Ledger {
  readonly #runs: Uint8Array;
  readonly #whole = Promise.withResolvers<void>();
  #left: number;

  constructor(effects: number) {
    this.#runs = new Uint8Array(effects);
    this.#left = effects;
  }

  /** Effects that ran at least once. */
  get done(): number {
    return this.#runs.length - this.#left;
  }

  /** Resolves when every effect ran. */
  get whole(): Promise<void> {
    return this.#whole.promise;
  }

  record(number: number): void {
    const runs = this.#runs[number];
    if (runs === undefined) throw new Error(`ledger: effect ${number} was never enqueued`);
    if (runs === 0) this.#left -= 1;
    if (runs < 255) this.#runs[number] = runs + 1;
    if (this.#left === 0) this.#whole.resolve();
  }

  /** A run whose effects were lost or ran twice measured something else than it says. */
  assertEachRanOnce(): void {
    const wrong = this.#runs.findIndex((runs) => runs !== 1);
    if (wrong !== -1)
      throw new Error(
        `expected each effect to run exactly once, got ${this.#runs[wrong]} runs of effect ${wrong}`,
      );
  }
}
