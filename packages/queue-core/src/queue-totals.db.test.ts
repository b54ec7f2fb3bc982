import { useTestDatabase } from '@sluice/testkit';
import { beforeEach, expect, test } from 'vitest';
import { claimSome, emptyQueue, fillQueue } from '../test/fill-queue.ts';
import { queueTotals } from './queue-totals.ts';

const database = useTestDatabase();
beforeEach(() => emptyQueue(database.db));

test('an empty queue', async () => {
  expect(await queueTotals(database.db)).toEqual({ running: 0, globalCap: null, repos: 0, weights: 0 });
});

test('repos that run or wait for their turn count, with their weights unless they are paused', async () => {
  const { db } = database;
  await db
    .insertInto('repo')
    .values([
      { repo_id: 'heavy', weight: 5 },
      { repo_id: 'paused', weight: 100, paused_at: new Date() },
      { repo_id: 'idle', weight: 100 },
      { repo_id: 'later', weight: 100 },
    ])
    .execute();
  await db.updateTable('queue_limit').set({ global_cap: 9 }).execute();
  for (const repoId of ['heavy', 'paused', 'unknown', 'busy']) await fillQueue(db, repoId, 2);
  await fillQueue(db, 'later', 2, { runInMs: 60_000 });
  await claimSome(db, 'busy', 2);
  expect(await queueTotals(db)).toEqual({ running: 2, globalCap: 9, repos: 4, weights: 7 });
});
