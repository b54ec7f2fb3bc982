import { unavailable } from '../http/http-error.ts';

/**
 * Bounds how many git processes run at once, in all and per repository, so that one busy repository leaves room for
 * the others. Who finds no room waits in line; when the line is long, or the wait, the client is asked to come back.
 */
export class GitSlots {
  readonly #max: number;
  readonly #waitMs: number;
  readonly #running = new Map<string, number>();
  #total = 0;
  #line: Waiting[] = [];
  #isClosed = false;

  constructor(options: { max: number; waitMs: number }) {
    this.#max = options.max;
    this.#waitMs = options.waitMs;
  }

  /** Whether a process could start at once. */
  get hasRoom(): boolean {
    return this.#total < this.#max && this.#line.length === 0;
  }

  /** Whether somebody stands in line. */
  get isWanted(): boolean {
    return this.#line.length > 0;
  }

  /** Resolves with a function that gives the slot back; call it once. */
  async take(repoId: string): Promise<() => void> {
    if (this.#isClosed) throw unavailable('the server is shutting down');
    if (this.#line.length >= this.#max * LINE_PER_SLOT) throw unavailable('too many requests are waiting');
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const timer = setTimeout(() => {
      this.#line = this.#line.filter((waiting) => waiting.start !== resolve);
      reject(unavailable('the server is busy'));
    }, this.#waitMs);
    this.#line.push({ repoId, start: resolve, refuse: reject });
    this.#fill();
    try {
      await promise;
    } finally {
      clearTimeout(timer);
    }
    return () => {
      this.#total -= 1;
      const left = (this.#running.get(repoId) ?? 1) - 1;
      if (left === 0) this.#running.delete(repoId);
      else this.#running.set(repoId, left);
      this.#fill();
    };
  }

  /** Sends everybody who waits away, and everybody who comes. */
  close(): void {
    this.#isClosed = true;
    for (const { refuse } of this.#line.splice(0)) refuse(unavailable('the server is shutting down'));
  }

  #fill(): void {
    const perRepo = Math.max(1, Math.ceil(this.#max / 2));
    this.#line = this.#line.filter(({ repoId, start }) => {
      const running = this.#running.get(repoId) ?? 0;
      if (this.#total >= this.#max || running >= perRepo) return true;
      this.#total += 1;
      this.#running.set(repoId, running + 1);
      start();
      return false;
    });
  }
}

interface Waiting {
  repoId: string;
  start: () => void;
  refuse: (error: Error) => void;
}

const LINE_PER_SLOT = 32;
