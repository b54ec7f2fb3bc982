import { expect, test } from 'vitest';
import { greatestDeviation, type Service } from './share-deviation.ts';

const WEIGHTS = new Map([
  ['a', 1],
  ['b', 3],
]);
/** Claims in a row; each letter is an effect. */
const claims = (...all: string[]): Service[] =>
  all.flatMap((repos, index) => repos.split('').map((repo) => ({ repo, claim: String(index) })));

test('service by weight deviates by nothing', () => {
  expect(greatestDeviation(claims('abbb', 'abbb'), WEIGHTS, 8)).toBe(0);
});

test('the greatest distance is that of the repo for which it is the greatest part', () => {
  // Of 8, a is entitled to 2 and got 3; b is entitled to 6 and got 5.
  expect(greatestDeviation(claims('abbb', 'aabb'), WEIGHTS, 8)).toBeCloseTo(0.5);
});

test('every end from the given number of effects on counts, and none within a claim', () => {
  expect(greatestDeviation(claims('bbba', 'bbba'), WEIGHTS, 1)).toBe(0);
  expect(greatestDeviation(claims('abbb', 'b', 'bba'), WEIGHTS, 5)).toBeCloseTo(0.2);
  expect(greatestDeviation(claims('abbb', 'b', 'bba'), WEIGHTS, 6)).toBe(0);
});

test('too few effects tell nothing', () => {
  expect(() => greatestDeviation(claims('abbb'), WEIGHTS, 5)).toThrow(
    'expected at least 5 effects served, got 4',
  );
});
