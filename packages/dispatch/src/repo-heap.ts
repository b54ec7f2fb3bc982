import { BinaryHeap } from './binary-heap.ts';
import { isBefore, type Entry, type Repo } from './scheduled-repo.ts';

/** Stale entries beyond the number of valid ones, at which all are dropped. */
const STALE_MAX = 64;

/**
 * Repos by tag. A repo that enters any heap again, or whose ticket is taken away, leaves a stale entry behind; none is
 * ever seen. They are dropped at the top, and all at once when they are most of the heap: while nothing is claimed for
 * days, nothing comes to the top.
 */
export class RepoHeap {
  readonly #heap = new BinaryHeap<Entry>(isBefore);
  /** When it has grown to this, stale entries are dropped. */
  #sizeMax = STALE_MAX;

  /** How many entries it has, stale ones included. */
  get size(): number {
    return this.#heap.size;
  }

  enter(repo: Repo, tag: number, ticket: number): void {
    repo.ticket = ticket;
    this.#heap.push({ repo, tag, ticket });
    if (this.#heap.size < this.#sizeMax) return;
    this.#heap.keep(isValid);
    this.#sizeMax = 2 * this.#heap.size + STALE_MAX;
  }

  peek(): Entry | undefined {
    let top = this.#heap.peek();
    while (top !== undefined && !isValid(top)) {
      this.#heap.pop();
      top = this.#heap.peek();
    }
    return top;
  }

  pop(): Entry | undefined {
    const top = this.peek();
    if (top !== undefined) this.#heap.pop();
    return top;
  }
}

function isValid({ repo, ticket }: Entry): boolean {
  return ticket === repo.ticket;
}
