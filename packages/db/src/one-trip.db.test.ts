import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { createDatabase } from './create-database.ts';
import { sendTogether } from './one-trip.ts';
import { PREPARED } from './prepared.ts';

const database = useTestDatabase();

function open(pooler: 'session' | 'transaction' = 'session') {
  const options = { connectionString: database.url, applicationName: 'one trip', connectionsMax: 1 };
  return createDatabase({ ...options, pooler });
}

const status = sql<{ xact: string }>`
  select case when pg_current_xact_id_if_assigned() is null then 'none' else 'open' end as xact`;
const repos = async (): Promise<number> =>
  (await database.db.selectFrom('repo').select('repo_id').execute()).length;

test.each(['session', 'transaction'] as const)(
  'statements of a transaction are answered in their order, and the first error is thrown (%s)',
  async (pooler) => {
    const db = open(pooler);
    const send = async (...statements: (typeof status)[]): Promise<unknown[][]> =>
      await db.transaction().execute(async (trx) => {
        const rows = await sendTogether(
          trx,
          statements.map((statement) => statement.compile(trx)),
        );
        expect((await status.execute(trx)).rows).toMatchObject([{ xact: 'open' }]);
        return rows;
      });
    const write = sql<never>`insert into sluice.repo (repo_id) values ('one/trip')`;
    const count = sql<never>`select count(*)::int as n from sluice.repo`;
    expect(await send(count, write, count)).toEqual([[{ n: 0 }], [], [{ n: 1 }]]);
    await database.db.deleteFrom('repo').execute();
    await expect(send(write, sql`select 1 / 0`, sql`select not_there`)).rejects.toThrow('division by zero');
    expect(await repos()).toBe(0);
    expect((await status.execute(db)).rows).toMatchObject([{ xact: 'none' }]);
    await db.destroy();
  },
);

test('a connection that is lost in the middle fails the transaction, and the next one has another', async () => {
  const db = open();
  const sent = (...statements: ReturnType<typeof sql>[]) =>
    db.transaction().execute((trx) =>
      sendTogether(
        trx,
        statements.map((each) => each.compile(trx)),
      ),
    );
  const write = sql`insert into sluice.repo (repo_id) values ('one/trip')`;
  await expect(sent(write, sql`select pg_terminate_backend(pg_backend_pid())`, status)).rejects.toThrow();
  expect(await repos()).toBe(0);
  expect(await sent(status)).toHaveLength(1);
  await db.destroy();
});

test('a marked statement is prepared once per connection, and never for a pooler in transaction mode', async () => {
  const prepared = sql<{ count: number }>`select count(*)::int as count from pg_prepared_statements`;
  const [db, pooled] = [open(), open('transaction')];
  for (const one of [db, pooled]) {
    for (const value of [1, 2, 3]) {
      const { rows } = await sql`${PREPARED}select ${value}::int as value`.execute(one);
      expect(rows).toEqual([{ value }]);
    }
  }
  expect((await prepared.execute(db)).rows).toEqual([{ count: 1 }]);
  expect((await prepared.execute(pooled)).rows).toEqual([{ count: 0 }]);
  await Promise.all([db.destroy(), pooled.destroy()]);
});
