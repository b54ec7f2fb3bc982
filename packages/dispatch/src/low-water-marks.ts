/** Repos to remember marks for; beyond it all are forgotten, which costs time and nothing else. */
const REPOS_MAX = 100_000;

/**
 * Per repo, where the next claim may begin to look, so that it does not walk over index entries of rows that are gone.
 * The mark of open claims is exact. The mark of waiting effects is a hint: a sweep drops it, and news of a lower effect
 * lowers it.
 */
export class LowWaterMarks {
  readonly #claims = new Map<string, bigint>();
  readonly #effects = new Map<string, bigint>();

  of(repoId: string): { sinceClaimNumber: bigint | undefined; sinceEffectId: bigint | undefined } {
    return { sinceClaimNumber: this.#claims.get(repoId), sinceEffectId: this.#effects.get(repoId) };
  }

  raise(repoId: string, lowest: { claim: bigint | null; waiting: bigint | null }): void {
    if (this.#claims.size >= REPOS_MAX) this.#claims.clear();
    if (this.#effects.size >= REPOS_MAX) this.#effects.clear();
    if (lowest.claim !== null) this.#claims.set(repoId, lowest.claim);
    if (lowest.waiting !== null) this.#effects.set(repoId, lowest.waiting);
  }

  /** An effect of this repo waits, or (without an id) some effect may. */
  lower(repoId: string, effectId?: bigint): void {
    const mark = this.#effects.get(repoId);
    if (mark !== undefined && (effectId === undefined || effectId < mark)) this.#effects.delete(repoId);
  }

  forgetWaiting(): void {
    this.#effects.clear();
  }
}
