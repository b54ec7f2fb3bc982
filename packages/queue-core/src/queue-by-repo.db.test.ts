import { table } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { beforeEach, expect, test } from 'vitest';
import { claimSome, emptyQueue, fillQueue } from '../test/fill-queue.ts';
import { QUEUE_COUNT_MAX, queueByRepo } from './queue-by-repo.ts';

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
  await sql`update ${table('effect_queue')} set enqueued_at = now() - interval '1 hour'`.execute(database.db);
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
  expect((await queueByRepo(database.db, { repoId: 'b' })).map((repo) => repo.repoId)).toEqual(['b']);
  expect(await queueByRepo(database.db, { repoId: 'c' })).toEqual([]);
});

test('the oldest is found whatever its priority, and claimed ones do not count', async () => {
  const { db } = database;
  await fillQueue(db, 'a', 1, { priority: -3 });
  await sql`update ${table('effect_queue')} set enqueued_at = now() - interval '1 hour'`.execute(db);
  await fillQueue(db, 'a', 3, { priority: 5 });
  await fillQueue(db, 'a', 2);
  await fillQueue(db, 'b', 2);
  expect((await queueByRepo(db, { repoId: 'a' }))[0]!.oldestWaitingMs).toBeGreaterThanOrEqual(3_600_000);
  await claimSome(db, 'a', 6);
  await claimSome(db, 'b', 2);
  expect(await queueByRepo(db)).toMatchObject([
    { repoId: 'a', running: 6, waiting: 0, oldestWaitingMs: null },
    { repoId: 'b', running: 2, waiting: 0, oldestWaitingMs: null },
  ]);
});

test('counts stop at a bound', async () => {
  await fillQueue(database.db, 'a', QUEUE_COUNT_MAX + 20);
  await claimSome(database.db, 'a', 10);
  await fillQueue(database.db, 'a', QUEUE_COUNT_MAX + 1, { runInMs: 60_000 });
  expect(await queueByRepo(database.db)).toMatchObject([
    { waiting: QUEUE_COUNT_MAX, scheduled: QUEUE_COUNT_MAX, running: 10 },
  ]);
});
