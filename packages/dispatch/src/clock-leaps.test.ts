import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ClockLeaps } from './clock-leaps.ts';

const HOUR_MS = 3_600_000;

function watch(leapMsMin = 5_000) {
  const leapt: number[] = [];
  const leaps = new ClockLeaps({ leapMsMin, onLeap: (aheadMs) => leapt.push(aheadMs) });
  /** Asked and answered at the same moment, unless the answer took a while. */
  const look = (databaseMs: number, at: number, tookMs = 0) =>
    leaps.countsFrom(databaseMs, { askedAt: at, answeredAt: at + tookMs });
  return { leapt, look };
}

test('while both clocks run alike, all time counts', () => {
  const { leapt, look } = watch();
  fc.assert(
    fc.property(fc.array(fc.nat({ max: 24 * HOUR_MS })), (steps) => {
      let at = 0;
      for (const step of steps) {
        at += step;
        expect(look(1_000_000 + at, at)).toBe(-Infinity);
      }
    }),
  );
  expect(leapt).toEqual([]);
});

test('after a leap forward time counts from the moment at which it was noticed, and each leap is told once', () => {
  const { leapt, look } = watch();
  look(0, 0);
  expect(look(HOUR_MS + 2_000, 2_000)).toBe(HOUR_MS + 2_000);
  expect(look(HOUR_MS + 4_000, 4_000)).toBe(HOUR_MS + 2_000);
  expect(leapt).toEqual([HOUR_MS]);
  expect(look(2 * HOUR_MS + 6_000, 6_000)).toBe(2 * HOUR_MS + 6_000);
  expect(leapt).toEqual([HOUR_MS, HOUR_MS]);
});

test('an answer that is late hides no leap', () => {
  const { leapt, look } = watch();
  look(0, 0);
  expect(look(2_000 + HOUR_MS, 2_000, HOUR_MS)).toBe(2_000 + HOUR_MS);
  expect(leapt).toEqual([HOUR_MS]);
});

test('what may have been on the way is no leap', () => {
  const { leapt, look } = watch();
  look(0, 0);
  expect(look(2_000 + 5_000, 2_000, 5_000)).toBe(-Infinity);
  expect(leapt).toEqual([]);
});

test('a clock that is set back again does not put off the judgement until it is there once more', () => {
  const { look } = watch();
  look(0, 0);
  look(HOUR_MS + 2_000, 2_000);
  expect(look(4_000, 4_000)).toBe(4_000);
  expect(look(6_000, 6_000)).toBe(4_000);
});
