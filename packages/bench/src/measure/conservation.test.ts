import { expect, test } from 'vitest';
import { audit, type Books, type FinishedRow } from './conservation.ts';

const CLEAN: Books = { lost: [], surplus: [], wrong: [], believed: [], deceived: [] };
const EXPECTED = new Map([
  [1n, 'pass'],
  [2n, 'fail'],
]);
const row = (effectId: bigint, outcome: string | null, claimNumber: bigint, state = 'done'): FinishedRow => ({
  effectId,
  state,
  outcome,
  claimNumber,
});
const GOOD = [row(1n, 'pass', 11n), row(2n, 'fail', 12n)];
const NOTHING_TOLD = {
  latest: new Map<bigint, bigint>(),
  accepted: new Map<bigint, bigint>(),
  stale: new Set<bigint>(),
};

test('every effect once, with its outcome, by the claim that was told so', () => {
  const told = { latest: new Map([[1n, 11n]]), accepted: new Map([[11n, 1n]]), stale: new Set([10n]) };
  expect(audit(EXPECTED, GOOD, told)).toEqual(CLEAN);
});

test.each<[string, FinishedRow[], Partial<Books>]>([
  ['lost', [GOOD[0]!], { lost: [2n] }],
  ['finished twice', [...GOOD, row(2n, 'fail', 13n)], { surplus: [2n] }],
  ['never enqueued', [...GOOD, row(3n, 'pass', 13n)], { surplus: [3n] }],
  ['another outcome', [GOOD[0]!, row(2n, 'pass', 12n)], { wrong: [2n] }],
  ['dead', [GOOD[0]!, row(2n, null, 12n, 'dead')], { wrong: [2n] }],
])('%s', (_, history, found) => {
  expect(audit(EXPECTED, history, NOTHING_TOLD)).toEqual({ ...CLEAN, ...found });
});

test('what claimants were told has to be what happened', () => {
  const told = { ...NOTHING_TOLD, accepted: new Map([[13n, 1n]]), stale: new Set([12n]) };
  expect(audit(EXPECTED, GOOD, told)).toEqual({ ...CLEAN, believed: [12n], deceived: [13n] });
});

test('an effect that was claimed anew is finished by its latest claim', () => {
  const told = { ...NOTHING_TOLD, latest: new Map([[1n, 14n]]) };
  expect(audit(EXPECTED, GOOD, told)).toEqual({ ...CLEAN, believed: [11n] });
});
