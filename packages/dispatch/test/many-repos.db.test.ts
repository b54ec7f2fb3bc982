import { table } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { PASS, useDispatchers } from './dispatchers.ts';
import { until } from './until.ts';

const database = useTestDatabase();
const start = useDispatchers(database);

test('100,000 repos with work are taken in turn, while the dispatcher goes on beating and sweeping', async () => {
  await sql`insert into ${table('effect_queue')} (repo_id, payload)
    select 'repo/' || n, '' from generate_series(1, 100000) n, generate_series(1, 2)`.execute(database.db);
  const repos: string[] = [];
  const dispatcher = await start(
    async ({ repoId }) => {
      repos.push(repoId);
      return await Promise.resolve(PASS);
    },
    { slots: 100 },
  );
  await until('2,000 have run', () => repos.length >= 2_000);
  // Nobody is served twice while others of the same weight have not been served once.
  expect(new Set(repos).size).toBe(repos.length);
  await dispatcher.stop();
  expect(dispatcher.of('lease_lost')).toEqual([]);
  expect(dispatcher.of('claim_failed')).toEqual([]);
  expect(await database.db.selectFrom('effect_claim').selectAll().execute()).toEqual([]);
});
