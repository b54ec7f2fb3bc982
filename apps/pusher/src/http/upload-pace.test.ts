import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { UploadPace } from './upload-pace.ts';

let isWanted = false;
let tooSlow = 0;
let pace: UploadPace;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  isWanted = true;
  tooSlow = 0;
  pace = new UploadPace({ isWanted: () => isWanted, onTooSlow: () => (tooSlow += 1) });
});
afterEach(() => {
  pace.end();
  vi.useRealTimers();
});

function receive(bytes: number, afterMs: number): void {
  pace.wait();
  vi.advanceTimersByTime(afterMs);
  pace.arrive(bytes);
}

test('who sends nothing is too slow once others wait, and not before', () => {
  isWanted = false;
  pace.wait();
  vi.advanceTimersByTime(60_000);
  expect(tooSlow).toBe(0);
  isWanted = true;
  vi.advanceTimersByTime(5_000);
  expect(tooSlow).toBe(1);
});

test('a byte now and then is too slow as well', () => {
  for (let n = 0; n < 5; n += 1) receive(1, 1_000);
  expect(tooSlow).toBe(1);
});

test('who sends enough in each window goes on for ever, and time in which nobody asked does not count', () => {
  for (let n = 0; n < 100; n += 1) receive(4_096, 1_000);
  for (let n = 0; n < 100; n += 1) {
    receive(1, 10);
    vi.advanceTimersByTime(10_000);
  }
  expect(tooSlow).toBe(0);
});
