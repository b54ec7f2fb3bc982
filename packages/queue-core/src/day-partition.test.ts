import { expect, test } from 'vitest';
import { addDays, DAILY_TABLES, daysBetween, partitionDay, partitionName } from './day-partition.ts';

test('a day and the name of its partition are one for one', () => {
  for (const parent of DAILY_TABLES) {
    const name = partitionName(parent, '2028-02-29');
    expect(partitionDay(parent, name)).toBe('2028-02-29');
    expect(partitionDay(parent, `${parent.name}_default`)).toBeUndefined();
    expect(partitionDay(parent, 'somebody_elses_20280229')).toBeUndefined();
  }
});

test('days are counted over the ends of months and years', () => {
  expect(addDays('2028-02-28', 2)).toBe('2028-03-01');
  expect(addDays('2026-12-31', 1)).toBe('2027-01-01');
  expect(addDays('2027-01-01', -1)).toBe('2026-12-31');
  expect(daysBetween('2028-02-28', '2028-03-01')).toBe(2);
  expect(daysBetween('2026-12-31', '2026-12-31')).toBe(0);
});
