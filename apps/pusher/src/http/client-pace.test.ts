import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ClientPace, DOWNLOAD, UPLOAD } from './client-pace.ts';

let isWanted = false;
let tooSlow = 0;
let pace: ClientPace;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  isWanted = true;
  tooSlow = 0;
  pace = new ClientPace(UPLOAD, { isWanted: () => isWanted, onTooSlow: () => (tooSlow += 1) });
});
afterEach(() => {
  pace.end();
  vi.useRealTimers();
});

function receive(bytes: number, afterMs: number): void {
  pace.wait();
  vi.advanceTimersByTime(afterMs);
  pace.count(bytes);
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

test('who takes a lump now and then, and enough in all, is not too slow, and who stops is within one window', () => {
  pace = new ClientPace(DOWNLOAD, { isWanted: () => isWanted, onTooSlow: () => (tooSlow += 1) });
  for (let n = 0; n < 10; n += 1) receive(64 * 1024, 14_000);
  expect(tooSlow).toBe(0);
  receive(4 * 1024 ** 2, 10);
  pace.wait();
  vi.advanceTimersByTime(DOWNLOAD.withinMs);
  expect(tooSlow).toBe(1);
});
