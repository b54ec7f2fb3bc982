import fc from 'fast-check';
import { expect, test } from 'vitest';
import { backoffMs } from './backoff.ts';

const range = fc
  .tuple(fc.integer({ min: 1, max: 60_000 }), fc.integer({ min: 0, max: 2_147_483_647 }))
  .map(([minMs, more]) => ({
    minMs,
    maxMs: Math.min(2_147_483_647, minMs + more),
  }));
const random = fc.double({ min: 0, max: 1, noNaN: true });

test('stays between half of the smallest and the largest delay, for any number of failures', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 2_147_483_647 }), range, random, (failures, within, luck) => {
      const delay = backoffMs(failures, within, luck);
      expect(delay).toBeGreaterThanOrEqual(Math.floor(within.minMs / 2));
      expect(delay).toBeLessThanOrEqual(within.maxMs);
      expect(Number.isSafeInteger(delay)).toBe(true);
    }),
  );
});

test('never shrinks with more failures, and jitter takes away at most half', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 100 }), range, random, (failures, within, luck) => {
      expect(backoffMs(failures + 1, within, luck)).toBeGreaterThanOrEqual(backoffMs(failures, within, luck));
      expect(backoffMs(failures, within, luck)).toBeGreaterThanOrEqual(
        Math.floor(backoffMs(failures, within, 0) / 2),
      );
    }),
  );
});

test('doubles up to the maximum', () => {
  const delays = [1, 2, 3, 4, 5, 6].map((failures) =>
    backoffMs(failures, { minMs: 1_000, maxMs: 10_000 }, 0),
  );
  expect(delays).toEqual([1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
});
