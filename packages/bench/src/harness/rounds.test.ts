import { expect, test } from 'vitest';
import { rounds } from './rounds.ts';

function roundsOf(secondsOfEach: number, isLimited: boolean): number[] {
  let now = 5;
  return [
    ...(function* () {
      for (const round of rounds(5, isLimited, () => now)) {
        now += secondsOfEach;
        yield round;
      }
    })(),
  ];
}

test('as many rounds as wanted where there is time', () => {
  expect(roundsOf(7, true)).toEqual([1, 2, 3, 4, 5]);
  expect(roundsOf(100, false)).toEqual([1, 2, 3, 4, 5]);
});

test('a round that would end too late is not begun, but the first always is', () => {
  expect(roundsOf(15, true)).toEqual([1, 2]);
  expect(roundsOf(100, true)).toEqual([1]);
});
