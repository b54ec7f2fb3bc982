import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { textArray } from './text-array.ts';

const database = useTestDatabase();

test.each([
  [[]],
  [['one']],
  [['a "quote"', '{brace,comma}', 'back\\slash', '', 'NULL', null, 'ü 漢 🙂', 'line\nbreak']],
  [[null, null]],
  [Array.from({ length: 5_000 }, (_, n) => `${n}`)],
])('arrives as it was sent: %j', async (values: (string | null)[]) => {
  const { rows } = await sql<{ values: (string | null)[] }>`
    select ${textArray(values)}::text[] as values`.execute(database.db);
  expect(rows[0]!.values).toEqual(values);
});
