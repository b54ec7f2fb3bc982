import fc from 'fast-check';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { RateLimit } from './rate-limit.ts';

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }));
afterEach(() => void vi.useRealTimers());

test('a minute is there at once, then one comes back after the other, and each name has its own', () => {
  const limit = new RateLimit(3);
  expect([1, 2, 3].map(() => limit.take('a'))).toEqual([0, 0, 0]);
  expect(limit.take('a')).toBe(20_000);
  expect(limit.take('b')).toBe(0);
  vi.advanceTimersByTime(19_000);
  expect(limit.take('a')).toBe(1_000);
  vi.advanceTimersByTime(1_000);
  expect([limit.take('a'), limit.take('a')]).toEqual([0, 20_000]);
  vi.advanceTimersByTime(10 * 60_000);
  expect([1, 2, 3, 4].map(() => limit.take('a') === 0)).toEqual([true, true, true, false]);
});

test('what is given back was never taken', () => {
  const limit = new RateLimit(2);
  for (let n = 0; n < 10; n += 1) {
    expect(limit.take('a')).toBe(0);
    limit.giveBack('a');
  }
  expect([1, 2, 3].map(() => limit.take('a') === 0)).toEqual([true, true, false]);
});

test('in no stretch of time are more let through than a minute holds and time brings', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 5_000 }),
      fc.array(fc.nat({ max: 90_000 }), { maxLength: 60 }),
      (perMinute, pauses) => {
        const limit = new RateLimit(perMinute);
        const startedAt = performance.now();
        let taken = 0;
        for (const pause of pauses) {
          vi.advanceTimersByTime(pause);
          const waitMs = limit.take('a');
          if (waitMs === 0) taken += 1;
          else expect(waitMs).toBeLessThanOrEqual(60_000 / perMinute + 1e-3);
          const most = perMinute * (1 + (performance.now() - startedAt) / 60_000);
          expect(taken).toBeLessThanOrEqual(most + 1e-3);
        }
      },
    ),
  );
});
