import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { beforeEach, expect, test } from 'vitest';
import { claimSome, emptyQueue, fillQueue } from '../test/fill-queue.ts';
import { queueByRepo } from './queue-by-repo.ts';

const database = useTestDatabase();
beforeEach(() => emptyQueue(database.db));

test('counts what waits, is scheduled and runs, with the limits of each repo', async () => {
  const pausedAt = new Date('2026-01-01T00:00:00Z');
  await database.db
    .insertInto('repo')
    .values({ repo_id: 'a', cap: 4, weight: 2, paused_at: pausedAt })
    .execute();
  await fillQueue(database.db, 'b', 5);
  await claimSome(database.db, 'b', 2);
  await fillQueue(database.db, 'b', 1, { runInMs: 60_000 });
  await fillQueue(database.db, 'a', 1, { runInMs: 60_000 });
  await sql`update sluice.effect_queue set enqueued_at = now() - interval '1 hour'`.execute(database.db);
  const [a, b] = await queueByRepo(database.db);
  expect(a).toEqual({
    repoId: 'a',
    waiting: 0,
    scheduled: 1,
    running: 0,
    cap: 4,
    weight: 2,
    pausedAt,
    oldestWaitingMs: null,
  });
  expect(b).toMatchObject({
    repoId: 'b',
    waiting: 3,
    scheduled: 1,
    running: 2,
    cap: null,
    weight: 1,
    pausedAt: null,
  });
  expect(b!.oldestWaitingMs).toBeGreaterThanOrEqual(3_600_000);
  expect((await queueByRepo(database.db, { limit: 1 })).map((repo) => repo.repoId)).toEqual(['a']);
  expect((await queueByRepo(database.db, { after: 'a' })).map((repo) => repo.repoId)).toEqual(['b']);
});
