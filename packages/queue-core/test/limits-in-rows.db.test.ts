import { sqlState, table } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test } from 'vitest';

const database = useTestDatabase();

const CHECK_VIOLATION = '23514';
const OUT_OF_RANGE = '22003';
const NOT_A_NUMBER = '22P02';

/** Whoever writes the rows without the command line is held to the same limits. */
test.each([
  ['cap', '0', CHECK_VIOLATION],
  ['cap', '-1', CHECK_VIOLATION],
  ['cap', '100001', CHECK_VIOLATION],
  ['cap', '2147483648', OUT_OF_RANGE],
  ['cap', 'NaN', NOT_A_NUMBER],
  ['weight', '0', CHECK_VIOLATION],
  ['weight', '-1', CHECK_VIOLATION],
  ['weight', 'NaN', NOT_A_NUMBER],
  ['weight', '1000000000', CHECK_VIOLATION],
  ['max_queued', '-1', CHECK_VIOLATION],
  ['max_queued', '2147483648', OUT_OF_RANGE],
])('a repo cannot have a %s of %s', async (column, value, state) => {
  const { db } = database;
  await sql`insert into ${table('repo')} (repo_id) values ('a') on conflict do nothing`.execute(db);
  const written = sql`update ${table('repo')} set ${sql.id(column)} = ${sql.lit(value)}`.execute(db);
  expect(await written.then(() => 'accepted', sqlState)).toBe(state);
});

test.each([
  ['0', CHECK_VIOLATION],
  ['-1', CHECK_VIOLATION],
  ['2147483648', OUT_OF_RANGE],
])('the global cap cannot be %s', async (value, state) => {
  const written = sql`update ${table('queue_limit')} set global_cap = ${sql.lit(value)}`.execute(database.db);
  expect(await written.then(() => 'accepted', sqlState)).toBe(state);
});

test('there is one row of limits, and it stays', async () => {
  const { db } = database;
  const second = sql`insert into ${table('queue_limit')} (is_singleton) values (false)`.execute(db);
  expect(await second.then(() => 'accepted', sqlState)).toBe(CHECK_VIOLATION);
});
