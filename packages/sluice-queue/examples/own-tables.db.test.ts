import { sql } from 'kysely';
import { useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { runShop } from './own-tables.ts';

const database = useTestDatabase();

test('orders and their effects commit together, and every effect is run', async () => {
  const { db, url } = database;
  const lines: string[] = [];
  await runShop(url, (line) => lines.push(line));
  expect(lines.toSorted()).toEqual([
    'Thank you, ada, for 12.50',
    'Thank you, grace, for 3.00',
    'expected a total of 0 or more, got -1',
  ]);
  const orders = await sql<{ customer: string; is_invoiced: boolean }>`
    select customer, invoiced_at is not null as is_invoiced from public.shop_order order by customer`.execute(
    db,
  );
  expect(orders.rows).toEqual([
    { customer: 'ada', is_invoiced: true },
    { customer: 'grace', is_invoiced: true },
  ]);
  const effects = await db.selectFrom('effect').select(['repo_id', 'name', 'state', 'outcome']).execute();
  expect(
    effects.map(({ repo_id, name, state, outcome }) => `${repo_id} ${name} ${state} ${outcome}`).toSorted(),
  ).toEqual([
    'ada invoice done pass',
    'ada thank-you done pass',
    'grace invoice done pass',
    'grace thank-you done pass',
  ]);
});
