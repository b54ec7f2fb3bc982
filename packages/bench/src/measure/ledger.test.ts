import { expect, test } from 'vitest';
import { Ledger } from './ledger.ts';

test('a ledger is whole when every effect ran, and finds the one that ran twice', async () => {
  const ledger = new Ledger(3);
  for (const number of [2, 0]) ledger.record(number);
  expect(ledger.done).toBe(2);
  expect(() => ledger.assertEachRanOnce()).toThrow('0 runs of effect 1');
  ledger.record(1);
  await ledger.whole;
  ledger.assertEachRanOnce();
  ledger.record(1);
  expect(() => ledger.assertEachRanOnce()).toThrow('2 runs of effect 1');
});

test('a ledger refuses an effect that was never enqueued', () => {
  expect(() => new Ledger(1).record(1)).toThrow('never enqueued');
});
