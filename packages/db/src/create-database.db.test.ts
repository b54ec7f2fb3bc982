import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { createDatabase } from './create-database.ts';
import { isUnavailable } from './postgres-errors.ts';

const database = useTestDatabase();

test.each(['session', 'transaction'] as const)(
  'a query that is not answered in time costs its connection and nothing else (%s)',
  async (pooler) => {
    const db = createDatabase({
      connectionString: database.url,
      applicationName: 'silent',
      connectionsMax: 1,
      queryTimeoutMs: 4_000,
      pooler,
    });
    try {
      await expect(sql`select pg_sleep(600)`.execute(db)).rejects.toSatisfy(isUnavailable);
      const { rows } = await sql`select 1 as one`.execute(db);
      expect(rows).toEqual([{ one: 1 }]);
    } finally {
      await db.destroy();
      await sql`select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and application_name = 'silent'`.execute(database.db);
    }
  },
);

test.each(['session', 'transaction'] as const)(
  'a session that the server ends costs the query it ran, and not the next one (%s)',
  async (pooler) => {
    await using db = createDatabase({
      connectionString: database.url,
      applicationName: 'ended',
      connectionsMax: 1,
      pooler,
    });
    for (let round = 0; round < 5; round += 1) {
      const ended = sql`select pg_terminate_backend(pg_backend_pid()), pg_sleep(600)`.execute(db);
      const next = ended.catch(() => sql`select 1 as one`.execute(db));
      await expect(ended).rejects.toMatchObject({ code: '57P01' });
      expect((await next).rows).toEqual([{ one: 1 }]);
    }
  },
);
