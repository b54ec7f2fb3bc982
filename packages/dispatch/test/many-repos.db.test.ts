import { table } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { PASS, useDispatchers } from './dispatchers.ts';
import { until } from './until.ts';

const database = useTestDatabase();
const start = useDispatchers(database);

test('100,000 repos with work are taken in turn while the sweep finds them', async () => {
  await sql`insert into ${table('effect_queue')} (repo_id, payload)
    select 'repo/' || n, '' from generate_series(1, 100000) n`.execute(database.db);
  const repos = new Set<string>();
  const dispatcher = await start(
    async ({ repoId }) => {
      repos.add(repoId);
      return await Promise.resolve(PASS);
    },
    { slots: 100 },
  );
  // More than one page of the sweep holds.
  await until('effects of 1,200 repos have run', () => repos.size >= 1_200);
  await dispatcher.stop();
  expect(dispatcher.of('dispatcher_declared_dead')).toEqual([]);
  expect(dispatcher.of('claim_failed')).toEqual([]);
  expect(await database.db.selectFrom('effect_claim').selectAll().execute()).toEqual([]);
});
