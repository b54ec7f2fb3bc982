import { expect, test } from 'vitest';
import { NewsRate } from './news-rate.ts';

function setUp() {
  let now = 0;
  const rate = new NewsRate({ now: () => now, sleep: () => Promise.resolve() });
  const feed = (perSecond: number, ms: number): void => {
    for (const end = now + ms; now < end; now += 10) rate.note(perSecond / 100);
  };
  return { rate, feed };
}

test('a few effects now and then are quiet, many are busy, and it calms down', () => {
  const { rate, feed } = setUp();
  feed(40, 5_000);
  expect(rate.isBusy).toBe(false);
  feed(1_000, 200);
  expect(rate.isBusy).toBe(true);
  feed(0, 3_000);
  expect(rate.isBusy).toBe(false);
});

test('between the two rates it stays what it was', () => {
  const { rate, feed } = setUp();
  feed(100, 5_000);
  expect(rate.isBusy).toBe(false);
  feed(300, 3_000);
  expect(rate.isBusy).toBe(true);
  feed(100, 5_000);
  expect(rate.isBusy).toBe(true);
});
