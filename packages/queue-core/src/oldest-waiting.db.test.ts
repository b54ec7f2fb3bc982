import { table } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { beforeEach, expect, test } from 'vitest';
import { claimSome, emptyQueue, fillQueue } from '../test/fill-queue.ts';
import { rowsTouched } from '../test/rows-touched.ts';
import { oldestWaitingMs, oldestWaitingStatement } from './oldest-waiting.ts';

const database = useTestDatabase();
beforeEach(() => emptyQueue(database.db));

const HOUR_MS = 3_600_000;

/** Effects that have waited for so many hours. */
async function fillSince(
  hours: number,
  ...fill: [repoId: string, count: number, columns?: object]
): Promise<void> {
  const ids = await fillQueue(database.db, ...fill);
  await sql`update ${table('effect_queue')} set enqueued_at = now() - ${hours}::float8 * interval '1 hour'
    where effect_id = any(${ids}::bigint[])`.execute(database.db);
}

const hours = async () => Math.round((await oldestWaitingMs(database.db))! / HOUR_MS);

test('an empty queue has none; what is claimed, scheduled or paused does not wait for its turn', async () => {
  const { db } = database;
  expect(await oldestWaitingMs(db)).toBeNull();
  await fillSince(9, 'claimed', 1);
  await claimSome(db, 'claimed', 1);
  await fillSince(8, 'scheduled', 1, { runInMs: HOUR_MS });
  await fillSince(7, 'paused', 1);
  await db.insertInto('repo').values({ repo_id: 'paused', paused_at: new Date() }).execute();
  expect(await oldestWaitingMs(db)).toBeNull();
  await fillSince(2, 'waits', 1);
  expect(await hours()).toBe(2);
});

test('an effect that starves behind higher priorities is found, and one of a negative priority', async () => {
  const { db } = database;
  await fillSince(3, 'a', 1, { priority: 0 });
  await fillSince(0, 'a', 50, { priority: 10 });
  await fillSince(0, 'b', 5);
  expect(await hours()).toBe(3);
  await fillSince(4, 'a', 1, { priority: -5 });
  expect(await hours()).toBe(4);
  await claimSome(db, 'a', 52);
  expect(await hours()).toBe(0);
});

test.each(['never taken', 'taken when empty', 'taken when full'])(
  'it reads no backlog, with statistics %s',
  async (statistics) => {
    const { db } = database;
    const analyze = () => sql`analyze ${table('effect_queue')}`.execute(db);
    if (statistics === 'taken when empty') await analyze();
    for (let repo = 0; repo < 20; repo += 1)
      for (const priority of [1, 0]) await fillQueue(db, `r/${repo}`, 500, { priority });
    await claimSome(db, 'r/1', 100);
    if (statistics === 'taken when full') await analyze();
    // 40 levels: a few rows for each, and the 100 claims.
    const { rows, readWhole } = await rowsTouched(db, oldestWaitingStatement());
    expect(rows).toBeLessThan(1_500);
    expect(readWhole['effect_queue']).toBeUndefined();
  },
);
