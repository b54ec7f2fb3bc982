import { table } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { Claimer } from '../src/claimer.ts';
import { systemClock } from '../src/clock.ts';
import { enqueue, names } from './dispatchers.ts';

const database = useTestDatabase();

test('room that a lost dispatcher left in any number of repos is found by one sweep', async () => {
  const { db } = database;
  const repos = names(1_200);
  await sql`insert into ${table('repo')} (repo_id, cap) select unnest(${repos}::text[]), 1`.execute(db);
  await enqueue(db, repos, 2);
  await sql`
    insert into ${table('effect_claim')} (repo_id, effect_id, attempt, claimant)
    select repo_id, min(effect_id), 1, 'lost' from ${table('effect_queue')} group by repo_id`.execute(db);
  const claimer = new Claimer({ db, clock: systemClock, emit: () => {}, defaultCap: 4 });
  await claimer.sweep();
  while (claimer.hasWork) expect((await claimer.claim('w', 2_000)).effects).toEqual([]);
  expect(claimer.isBlocked).toBe(true);

  await db.deleteFrom('effect_claim').execute();
  await claimer.sweep();
  let claimed = 0;
  while (claimer.hasWork) claimed += (await claimer.claim('w', 2_000)).effects.length;
  expect(claimed).toBe(repos.length);
});
