import fc from 'fast-check';
import { expect, test } from 'vitest';
import { percentile, summarise } from './statistics.ts';

test('a percentile is interpolated between its neighbours', () => {
  expect(percentile([4, 1, 3, 2], 50)).toBe(2.5);
  expect(percentile([1, 2, 3, 4, 5], 99)).toBeCloseTo(4.96);
  expect(percentile([7], 99)).toBe(7);
});

test('a percentile lies within the values and rises with its rank', () => {
  const values = fc.array(fc.double({ min: -1e9, max: 1e9, noNaN: true }), { minLength: 1, maxLength: 50 });
  const rank = fc.integer({ min: 0, max: 100 });
  fc.assert(
    fc.property(values, rank, rank, (list, one, other) => {
      const low = percentile(list, Math.min(one, other));
      const high = percentile(list, Math.max(one, other));
      expect(low).toBeGreaterThanOrEqual(Math.min(...list));
      expect(high).toBeLessThanOrEqual(Math.max(...list));
      expect(low).toBeLessThanOrEqual(high + 1e-6);
    }),
  );
});

test('a summary has the median and how far the runs differ', () => {
  expect(summarise([10, 12, 9])).toEqual({ median: 10, min: 9, max: 12, spread: 0.3, runs: 3 });
  expect(summarise([0]).spread).toBe(0);
});

test('no values have no summary', () => {
  expect(() => summarise([])).toThrow('got none');
  expect(() => percentile([], 50)).toThrow('got none');
});
