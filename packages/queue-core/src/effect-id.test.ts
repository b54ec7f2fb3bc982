import fc from 'fast-check';
import { expect, test } from 'vitest';
import { effectId } from './effect-id.ts';

test('an id and its text are the same both ways', () => {
  fc.assert(
    fc.property(fc.bigInt(1n, 2n ** 63n - 1n), (id) => {
      expect(effectId(String(effectId(id)))).toBe(id);
    }),
  );
});

test('a number is no effect id: it may have lost its last digits', () => {
  expect(() => effectId(7 as unknown as bigint)).toThrow(/^effectId: expected/);
});

test.each([0n, -1n, 2n ** 63n, '', '0', '-1', '1.5', '1e3', ' 1', '9'.repeat(20)])(
  '%o is no effect id',
  (value) => {
    expect(() => effectId(value)).toThrow(/^effectId: expected a positive whole number/);
  },
);
