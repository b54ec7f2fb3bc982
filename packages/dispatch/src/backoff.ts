export interface BackoffRange {
  minMs: number;
  maxMs: number;
}

/**
 * Delay before the next try after `failures` failures in a row (from 1): doubles from `minMs` up to `maxMs` and stays
 * there, less up to half by `random` (0 to 1), so that many that failed together do not come back together.
 */
export function backoffMs(failures: number, range: BackoffRange, random: number): number {
  // 2^52 is past every sensible maximum, and the product stays a safe number.
  const doublings = Math.min(Math.max(0, failures - 1), 52);
  const full = Math.min(range.maxMs, range.minMs * 2 ** doublings);
  return Math.round(full * (1 - random / 2));
}
