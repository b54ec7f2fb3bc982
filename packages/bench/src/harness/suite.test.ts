import { expect, test } from 'vitest';
import { isMet, type Finding } from './suite.ts';

const finding = (ratio: number, target: Pick<Finding, 'target'>): Finding => ({
  name: 'x',
  unit: 'effects/s',
  sluice: { median: 1, min: 1, max: 1, spread: 0, runs: 1 },
  peers: {},
  ratio,
  ratioOf: 'one by the other',
  ...target,
});

test('a target is a bound that counts as met', () => {
  expect(isMet(finding(3, { target: { atLeast: 3 } }))).toBe(true);
  expect(isMet(finding(2.99, { target: { atLeast: 3 } }))).toBe(false);
  expect(isMet(finding(1.3, { target: { atMost: 1.3 } }))).toBe(true);
  expect(isMet(finding(1.31, { target: { atMost: 1.3 } }))).toBe(false);
  expect(isMet(finding(Number.NaN, { target: { atMost: 1.3 } }))).toBe(false);
  expect(isMet(finding(0, {}))).toBe(true);
});
