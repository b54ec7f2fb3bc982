/** A quick suite begins no round that would end later than this. */
const QUICK_SECONDS_MAX = 45;

/**
 * Yields 1 to `most`, or fewer where the time is limited and one more round, as long as the longest so far, would
 * exceed it: a slow machine gets fewer repeats, never a suite that does not end.
 */
export function* rounds(most: number, isLimited: boolean, now: () => number): Generator<number, void, void> {
  let longest = 0;
  for (let round = 1; round <= most; round += 1) {
    const startedAt = now();
    if (round > 1 && isLimited && startedAt + longest > QUICK_SECONDS_MAX) return;
    yield round;
    longest = Math.max(longest, now() - startedAt);
  }
}
