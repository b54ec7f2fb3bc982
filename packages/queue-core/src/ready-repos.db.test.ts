import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { beforeEach, expect, test } from 'vitest';
import { claimSome, emptyQueue, fillQueue } from '../test/fill-queue.ts';
import { rowsTouched } from '../test/rows-touched.ts';
import { readyRepos, readyReposStatement } from './ready-repos.ts';

const database = useTestDatabase();
beforeEach(() => emptyQueue(database.db));

test('names each repo with effects to run once, with what decides about its turn', async () => {
  await database.db
    .insertInto('repo')
    .values({ repo_id: 'b', cap: 2, weight: 5, paused_at: sql<Date>`now()` })
    .execute();
  await database.db.insertInto('repo').values({ repo_id: 'without-work' }).execute();
  await fillQueue(database.db, 'a', 2);
  await fillQueue(database.db, 'a', 1, { priority: -1 });
  await fillQueue(database.db, 'b', 1, { priority: 3 });
  await fillQueue(database.db, 'later', 1, { runInMs: 60_000 });
  await fillQueue(database.db, 'running', 1);
  await claimSome(database.db, 'running', 1);
  await claimSome(database.db, 'a', 1);
  const plain = { cap: null, weight: 1, isPaused: false };
  expect(await readyRepos(database.db, { limit: 10 })).toEqual([
    { repoId: 'a', next: { effectId: expect.any(BigInt), priority: 0 }, claimed: 1, ...plain },
    {
      repoId: 'b',
      next: { effectId: expect.any(BigInt), priority: 3 },
      claimed: 0,
      cap: 2,
      weight: 5,
      isPaused: true,
    },
    { repoId: 'running', next: null, claimed: 1, ...plain },
  ]);
});

test('page by page, it names every repo', async () => {
  await sql`insert into sluice.effect_queue (repo_id, payload) select 'r' || n % 25, '' from generate_series(1, 75) n`.execute(
    database.db,
  );
  const seen: string[] = [];
  for (;;) {
    const page = await readyRepos(database.db, { after: seen.at(-1), limit: 10 });
    seen.push(...page.map((repo) => repo.repoId));
    if (page.length < 10) break;
  }
  expect(seen).toEqual(Array.from({ length: 25 }, (_, n) => `r${n}`).toSorted());
  expect(await readyRepos(database.db, { limit: 10, after: 'zzz' })).toEqual([]);
});

test.each(['never taken', 'taken when empty', 'taken when full'])(
  'reads no backlog, with statistics %s',
  async (when) => {
    await sql`alter table sluice.effect_queue set (autovacuum_enabled = false)`.execute(database.db);
    if (when === 'taken when empty') await sql`vacuum (analyze) sluice.effect_queue`.execute(database.db);
    await fillQueue(database.db, 'm', 30_000);
    for (const repoId of ['a', 'z']) await fillQueue(database.db, repoId, 10);
    if (when === 'taken when full') await sql`vacuum (analyze) sluice.effect_queue`.execute(database.db);
    const { rows, readWhole } = await rowsTouched(database.db, readyReposStatement('', 100));
    expect(readWhole).not.toHaveProperty('effect_queue');
    expect(rows).toBeLessThan(100);
  },
);
