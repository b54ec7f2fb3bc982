/** A row of history, as far as it matters here. */
export interface FinishedRow {
  effectId: bigint;
  state: string;
  outcome: string | null;
  claimNumber: bigint | null;
}

/** What the claimants know of their claims. */
export interface Claims {
  /** The highest claim number of each effect that was started. */
  latest: ReadonlyMap<bigint, bigint>;
  /** By number, the effects of claims that were told to have finished them. */
  accepted: ReadonlyMap<bigint, bigint>;
  /** Numbers of claims that were told to be too late. */
  stale: ReadonlySet<bigint>;
}

export interface Books {
  /** Enqueued and not in history. */
  lost: bigint[];
  /** In history more than once, or never enqueued. */
  surplus: bigint[];
  /** In history with another end than expected. */
  wrong: bigint[];
  /** Claims that finished their effect although they were told to be too late, or although a later claim had begun. */
  believed: bigint[];
  /** Claims that were told to have finished their effect, which another one finished. */
  deceived: bigint[];
}

/**
 * Compares what was enqueued, by the outcome that each effect must have, with what history says. An effect is claimed
 * anew only after its last claim was taken away, so the claim that finished it must be its latest.
 */
export function audit(
  expected: ReadonlyMap<bigint, string>,
  history: readonly FinishedRow[],
  { latest, accepted, stale }: Claims,
): Books {
  const winners = new Map<bigint, bigint | null>();
  const books: Books = { lost: [], surplus: [], wrong: [], believed: [], deceived: [] };
  for (const { effectId, state, outcome, claimNumber } of history) {
    if (winners.has(effectId) || !expected.has(effectId)) books.surplus.push(effectId);
    else if (state !== 'done' || outcome !== expected.get(effectId)) books.wrong.push(effectId);
    const isLate =
      claimNumber !== null && (stale.has(claimNumber) || claimNumber < (latest.get(effectId) ?? 0n));
    if (isLate) books.believed.push(claimNumber);
    winners.set(effectId, claimNumber);
  }
  for (const effectId of expected.keys()) if (!winners.has(effectId)) books.lost.push(effectId);
  for (const [claimNumber, effectId] of accepted)
    if (winners.get(effectId) !== claimNumber) books.deceived.push(claimNumber);
  return books;
}
