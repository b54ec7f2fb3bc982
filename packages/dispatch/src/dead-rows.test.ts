import type { HotTable } from '@sluice/queue-core/dispatcher';
import { expect, test } from 'vitest';
import { DeadRows } from './dead-rows.ts';

const of = (dead: number): Map<HotTable, number> => new Map([['effect_queue', dead]]);

test('a table is due when it has enough dead rows, and only that table', () => {
  const rows = new DeadRows();
  expect(rows.due(of(19_999))).toEqual([]);
  expect(rows.due(new Map([...of(20_000), ['effect_claim', 5]]))).toEqual(['effect_queue']);
  rows.vacuumed(['effect_queue'], of(0));
  expect(rows.due(of(19_999))).toEqual([]);
  expect(rows.due(of(20_000))).toEqual(['effect_queue']);
});

test('while a long transaction keeps them, vacuums are few: their number grows with the logarithm of the rows', () => {
  const rows = new DeadRows();
  let vacuums = 0;
  for (let dead = 0; dead < 10_000_000; dead += 10_000) {
    const due = rows.due(of(dead));
    vacuums += due.length;
    rows.vacuumed(due, of(dead));
  }
  expect(vacuums).toBeGreaterThan(5);
  expect(vacuums).toBeLessThan(12);
});

test('once they could be removed, by whomever, it is due as often as before', () => {
  const rows = new DeadRows();
  rows.due(of(1_000_000));
  rows.vacuumed(['effect_queue'], of(1_000_000));
  expect(rows.due(of(2_000_000))).toEqual([]);
  expect(rows.due(of(0))).toEqual([]);
  expect(rows.due(of(20_000))).toEqual(['effect_queue']);
});
