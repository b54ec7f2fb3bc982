/**
 * Lets one task per key run at a time, in the order they came. A repository's pushes wait here and not in the
 * database, where each of them would hold a connection while it waits for the repository's row.
 */
export class KeyedTurns {
  readonly #last = new Map<string, Promise<void>>();

  async run<T>(key: string, task: () => Promise<T>): Promise<T> {
    const previous = this.#last.get(key);
    const turn = Promise.withResolvers<void>();
    this.#last.set(key, turn.promise);
    await previous;
    try {
      return await task();
    } finally {
      if (this.#last.get(key) === turn.promise) this.#last.delete(key);
      turn.resolve();
    }
  }
}
