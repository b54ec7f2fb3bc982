/**
 * Jain's index of fairness: 1 when all shares are equal, 1/n when one has everything. Source: R. Jain, D. Chiu,
 * W. Hawe, "A quantitative measure of fairness and discrimination", DEC TR-301, 1984.
 */
export function jainIndex(shares: readonly number[]): number {
  const sum = shares.reduce((total, share) => total + share, 0);
  const squares = shares.reduce((total, share) => total + share * share, 0);
  if (shares.length === 0 || squares === 0) return 1;
  return (sum * sum) / (shares.length * squares);
}
