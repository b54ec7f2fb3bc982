/** Repos to remember marks for; beyond it all are forgotten, which costs time and nothing else. */
const REPOS_MAX = 100_000;

/** What was announced since a look at the database began: per repo the lowest effect, 0 for an unknown one. */
export type Look = Map<string, bigint>;

/**
 * Per repo, where the next claim may begin to look, so that it does not walk over index entries of rows that are gone.
 * The mark of open claims is exact. The mark of waiting effects is a hint: a sweep or news of a lower effect lowers it, and
 * the answer of a look that began before does not raise it again past what was announced meanwhile.
 */
export class LowWaterMarks {
  readonly #claims = new Map<string, bigint>();
  readonly #effects = new Map<string, bigint>();
  readonly #looks = new Set<Look>();

  of(repoId: string): { sinceClaimNumber: bigint | undefined; sinceEffectId: bigint | undefined } {
    return { sinceClaimNumber: this.#claims.get(repoId), sinceEffectId: this.#effects.get(repoId) };
  }

  /** Begins to note what is announced, until {@link endLook}. */
  beginLook(): Look {
    const look: Look = new Map();
    this.#looks.add(look);
    return look;
  }

  endLook(look: Look): void {
    this.#looks.delete(look);
  }

  /** What a claim found. */
  raise(look: Look, repoId: string, found: { claim: bigint | null; waiting: bigint | null }): void {
    if (this.#claims.size >= REPOS_MAX) this.#claims.clear();
    if (found.claim !== null) this.#claims.set(repoId, found.claim);
    if (found.waiting !== null) this.#setWaiting(repoId, lowest(found.waiting, look.get(repoId)));
  }

  /** An effect of this repo waits, or (without an id) some effect may. */
  lower(repoId: string, effectId = 0n): void {
    for (const look of this.#looks) look.set(repoId, lowest(effectId, look.get(repoId)));
    const mark = this.#effects.get(repoId);
    if (mark !== undefined && effectId < mark) this.#setWaiting(repoId, effectId);
  }

  /** The lowest waiting effect that a sweep found; one without a mark has it then. */
  sweep(look: Look, repoId: string, effectId: bigint): void {
    const found = lowest(effectId, look.get(repoId));
    this.lower(repoId, found);
    if (!this.#effects.has(repoId)) this.#setWaiting(repoId, found);
  }

  #setWaiting(repoId: string, effectId: bigint): void {
    if (this.#effects.size >= REPOS_MAX) this.#effects.clear();
    if (effectId === 0n) this.#effects.delete(repoId);
    else this.#effects.set(repoId, effectId);
  }
}

function lowest(one: bigint, other: bigint | undefined): bigint {
  return other === undefined || one < other ? one : other;
}
