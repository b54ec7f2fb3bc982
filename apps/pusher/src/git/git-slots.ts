import { unavailable } from '../http-error.ts';

/**
 * Bounds how many git processes run at once, in all, per repository and per account, so that a busy one leaves room for
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

  /** Whether somebody in line could start if such a slot were given back. */
  isWanted(repoId: string, account: string | null = null): boolean {
    const given = holdersOf(repoId, account);
    return this.#line.some(({ holders }) =>
      holders.every((holder) => this.#runningOf(holder) - (given.includes(holder) ? 1 : 0) < this.#each),
    );
  }

  /** Resolves with a function that gives the slot back; call it once. */
  async take(repoId: string, account: string | null = null): Promise<() => void> {
    if (this.#isClosed) throw unavailable('the server is shutting down');
    if (this.#line.length >= this.#max * LINE_PER_SLOT) throw unavailable('too many requests are waiting');
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const timer = setTimeout(() => {
      this.#line = this.#line.filter((waiting) => waiting.start !== resolve);
      reject(unavailable('the server is busy'));
    }, this.#waitMs);
    const holders = holdersOf(repoId, account);
    this.#line.push({ holders, start: resolve, refuse: reject });
    this.#fill();
    try {
      await promise;
    } finally {
      clearTimeout(timer);
    }
    return () => {
      this.#total -= 1;
      for (const holder of holders) {
        const left = this.#runningOf(holder) - 1;
        if (left === 0) this.#running.delete(holder);
        else this.#running.set(holder, left);
      }
      this.#fill();
    };
  }

  /** Sends everybody who waits away, and everybody who comes. */
  close(): void {
    this.#isClosed = true;
    for (const { refuse } of this.#line.splice(0)) refuse(unavailable('the server is shutting down'));
  }

  /** Most that one repository or account has at once. */
  get #each(): number {
    return Math.max(1, Math.ceil(this.#max / 2));
  }

  #runningOf(holder: string): number {
    return this.#running.get(holder) ?? 0;
  }

  #fill(): void {
    this.#line = this.#line.filter(({ holders, start }) => {
      const hasEnough = holders.some((holder) => this.#runningOf(holder) >= this.#each);
      if (this.#total >= this.#max || hasEnough) return true;
      this.#total += 1;
      for (const holder of holders) this.#running.set(holder, this.#runningOf(holder) + 1);
      start();
      return false;
    });
  }
}

function holdersOf(repoId: string, account: string | null): string[] {
  return [`repo ${repoId}`, ...(account === null ? [] : [`account ${account}`])];
}

interface Waiting {
  /** Whom the slot counts for. */
  holders: readonly string[];
  start: () => void;
  refuse: (error: Error) => void;
}

const LINE_PER_SLOT = 32;
