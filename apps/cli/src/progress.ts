import { printableLine, type Terminal } from './terminal.ts';

const CLEAR_LINE = '\r\u001b[K';

/** One line that says how far a long run is. Only a terminal gets it: a file would keep every step. */
export class Progress {
  readonly #stderr: Terminal['stderr'];
  #isShown = false;

  constructor({ stderr }: Terminal) {
    this.#stderr = stderr;
  }

  show(text: string): void {
    if (this.#stderr.isTTY !== true) return;
    this.#isShown = true;
    this.#stderr.write(`${CLEAR_LINE}${printableLine(text)}`);
  }

  clear(): void {
    if (this.#isShown) this.#stderr.write(CLEAR_LINE);
    this.#isShown = false;
  }
}
