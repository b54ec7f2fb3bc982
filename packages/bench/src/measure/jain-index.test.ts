import fc from 'fast-check';
import { expect, test } from 'vitest';
import { jainIndex } from './jain-index.ts';

test('equal shares are wholly fair, and one that has everything is 1/n', () => {
  expect(jainIndex([3, 3, 3, 3])).toBe(1);
  expect(jainIndex([8, 0, 0, 0])).toBe(0.25);
  expect(jainIndex([])).toBe(1);
});

test('it lies between 1/n and 1, and does not depend on the unit', () => {
  const shares = fc.array(fc.integer({ min: 0, max: 1_000 }), { minLength: 1, maxLength: 100 });
  fc.assert(
    fc.property(shares, (list) => {
      const index = jainIndex(list);
      expect(index).toBeGreaterThanOrEqual(1 / list.length - 1e-9);
      expect(index).toBeLessThanOrEqual(1 + 1e-9);
      expect(jainIndex(list.map((share) => share * 7))).toBeCloseTo(index);
    }),
  );
});
