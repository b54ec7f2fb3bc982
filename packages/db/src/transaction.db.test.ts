import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { createDatabase } from './create-database.ts';
import { isRetryable, isUnavailable, sqlState } from './postgres-errors.ts';
import { inBoundedTransaction, inTransaction } from './transaction.ts';

const database = useTestDatabase();

const repoIds = async (): Promise<string[]> =>
  (await database.db.selectFrom('repo').select('repo_id').orderBy('repo_id').execute()).map(
    (row) => row.repo_id,
  );

test('commits what it ran and rolls back what threw', async () => {
  await inTransaction(database.db, (trx) => trx.insertInto('repo').values({ repo_id: 'kept' }).execute());
  const failing = inTransaction(database.db, async (trx) => {
    await trx.insertInto('repo').values({ repo_id: 'lost' }).execute();
    throw new Error('changed my mind');
  });
  await expect(failing).rejects.toThrow('changed my mind');
  expect(await repoIds()).toEqual(['kept']);
});

test('joins the transaction it is given', async () => {
  const outer = database.db.transaction().execute(async (trx) => {
    await inTransaction(trx, (inner) => inner.insertInto('repo').values({ repo_id: 'joined' }).execute());
    throw new Error('outer fails');
  });
  await expect(outer).rejects.toThrow('outer fails');
  expect(await repoIds()).not.toContain('joined');
});

test('throws the error that lost the connection, not the failed rollback, and the pool recovers', async () => {
  const lost = inTransaction(database.db, (trx) =>
    sql`select pg_terminate_backend(pg_backend_pid())`.execute(trx),
  );
  const error: unknown = await lost.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(sqlState(error)).toBe('57P01');
  expect(isUnavailable(error)).toBe(true);
  expect(await inTransaction(database.db, () => Promise.resolve('next'))).toBe('next');
});

test('a connection that is lost between two statements fails its transaction alone, be it the only one', async () => {
  await using db = createDatabase({
    connectionString: database.url,
    applicationName: 'only one',
    connectionsMax: 1,
  });
  const failing = inTransaction(db, async (trx) => {
    await trx.insertInto('repo').values({ repo_id: 'half' }).execute();
    await sql`select pg_terminate_backend(pid, 20000) from pg_stat_activity
      where datname = current_database() and application_name = 'only one'`.execute(database.db);
    await trx.insertInto('repo').values({ repo_id: 'other half' }).execute();
  });
  await expect(failing).rejects.toSatisfy(isUnavailable);
  await inTransaction(db, (trx) => trx.insertInto('repo').values({ repo_id: 'next' }).execute());
  expect(await repoIds()).not.toContain('half');
  expect(await repoIds()).toContain('next');
});

test('a statement that is refused leaves the only connection clean for whoever comes next', async () => {
  await using db = createDatabase({
    connectionString: database.url,
    applicationName: 'only one',
    connectionsMax: 1,
  });
  const refused = inTransaction(db, async (trx) => {
    await trx.insertInto('repo').values({ repo_id: 'refused' }).execute();
    await trx.insertInto('repo').values({ repo_id: 'refused' }).execute();
  });
  await expect(refused).rejects.toMatchObject({ code: '23505' });
  const { rows } = await sql`select 1 as one`.execute(db);
  expect(rows).toEqual([{ one: 1 }]);
  expect(await repoIds()).not.toContain('refused');
});

test('bounds apply inside and end with the transaction', async () => {
  const bounds = sql<{ lock: string; idle: string }>`select current_setting('lock_timeout') lock,
    current_setting('idle_in_transaction_session_timeout') idle`;
  await database.db.connection().execute(async (connection) => {
    const inside = await inBoundedTransaction(connection, (trx) => bounds.execute(trx));
    expect(inside.rows).toEqual([{ lock: '5s', idle: '10s' }]);
    expect((await bounds.execute(connection)).rows).toEqual([{ lock: '0', idle: '0' }]);
  });
});

test("a caller's transaction keeps its own bounds", async () => {
  await database.db.transaction().execute(async (outer) => {
    const { rows } = await inBoundedTransaction(outer, (trx) =>
      sql`select current_setting('lock_timeout') as lock`.execute(trx),
    );
    expect(rows).toEqual([{ lock: '0' }]);
  });
});

test('a lock held by another ends as a retryable error', async () => {
  await database.db.transaction().execute(async (holder) => {
    await sql`select pg_advisory_xact_lock(1)`.execute(holder);
    const waiting = inBoundedTransaction(database.db, async (trx) => {
      await sql`select set_config('lock_timeout', '50ms', true)`.execute(trx);
      await sql`select pg_advisory_xact_lock(1)`.execute(trx);
    });
    await expect(waiting).rejects.toSatisfy(isRetryable);
  });
});
