import { sql } from 'kysely';
import { table } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { QUANTUM } from '../src/fair-scheduler.ts';
import { enqueue, names, PASS, useDispatchers } from './dispatchers.ts';

const database = useTestDatabase();
const start = useDispatchers(database);

/** Samples open claims as fast as it can until told to stop; returns the highest counts it saw. */
function sampleClaims() {
  const highest = new Map<string, number>();
  let highestTotal = 0;
  let samples = 0;
  let isDone = false;
  const sampling = (async () => {
    while (!isDone) {
      const { rows } = await sql<{ repo_id: string; claims: number }>`
        select repo_id, count(*)::int as claims from ${table('effect_claim')} group by repo_id`.execute(
        database.db,
      );
      for (const { repo_id, claims } of rows)
        highest.set(repo_id, Math.max(claims, highest.get(repo_id) ?? 0));
      highestTotal = Math.max(
        highestTotal,
        rows.reduce((sum, { claims }) => sum + claims, 0),
      );
      samples += 1;
    }
  })();
  return async () => {
    isDone = true;
    await sampling;
    return { highest: Object.fromEntries(highest), highestTotal, samples };
  };
}

test('three dispatchers never exceed the cap of any repo', async () => {
  const { db } = database;
  await db
    .insertInto('repo')
    .values([1, 2, 3].map((cap) => ({ repo_id: `cap${cap}`, cap })))
    .execute();
  await enqueue(db, ['cap1', 'cap2', 'cap3', 'default'], 60);
  const running = new Map<string, number>();
  const peaks = new Map<string, number>();
  const run = async ({ repoId }: { repoId: string }) => {
    const now = (running.get(repoId) ?? 0) + 1;
    running.set(repoId, now);
    peaks.set(repoId, Math.max(now, peaks.get(repoId) ?? 0));
    await new Promise((resolve) => setTimeout(resolve, 2));
    running.set(repoId, running.get(repoId)! - 1);
    return PASS;
  };
  const sampled = sampleClaims();
  const dispatchers = await Promise.all([start(run), start(run), start(run)]);
  await Promise.all(dispatchers.map((dispatcher) => dispatcher.idle()));
  const { highest, samples } = await sampled();
  expect(samples).toBeGreaterThan(0);
  for (const seen of [highest, Object.fromEntries(peaks)]) {
    const exceeded = Object.entries({ cap1: 1, cap2: 2, cap3: 3, default: 4 }).filter(
      ([repoId, cap]) => seen[repoId]! > cap,
    );
    expect(exceeded).toEqual([]);
  }
  expect(await db.selectFrom('effect_history').select('effect_id').execute()).toHaveLength(240);
});

test('the global cap holds over all repos and dispatchers, and everything is run', async () => {
  const { db } = database;
  await db.updateTable('queue_limit').set({ global_cap: 3 }).execute();
  await enqueue(db, names(6), 15);
  const sampled = sampleClaims();
  const run = async () => {
    await new Promise((resolve) => setTimeout(resolve, 1));
    return PASS;
  };
  const dispatchers = await Promise.all([start(run), start(run)]);
  await Promise.all(dispatchers.map((dispatcher) => dispatcher.idle()));
  expect((await sampled()).highestTotal).toBeLessThanOrEqual(3);
  expect(await db.selectFrom('effect_history').select('effect_id').execute()).toHaveLength(90);
});

test('at the global cap the next place goes to whoever has its turn, not to whoever left it', async () => {
  const { db } = database;
  await db.updateTable('queue_limit').set({ global_cap: 2 }).execute();
  await enqueue(db, ['a', 'b'], 40);
  const served: Record<string, number> = { a: 0, b: 0 };
  let furthestApart = 0;
  const NEVER_SWEEPS = { pollMs: 60_000 };
  const dispatcher = await start(async ({ repoId }) => {
    served[repoId]! += 1;
    furthestApart = Math.max(furthestApart, Math.abs(served['a']! - served['b']!));
    await new Promise((resolve) => setTimeout(resolve, 1));
    return PASS;
  }, NEVER_SWEEPS);
  await dispatcher.idle();
  expect(served).toEqual({ a: 40, b: 40 });
  expect(furthestApart).toBeLessThanOrEqual(2 * QUANTUM);
});

test('room that another dispatcher leaves is found', async () => {
  const { db } = database;
  await db.insertInto('repo').values({ repo_id: 'a', cap: 1 }).execute();
  await enqueue(db, ['a'], 2);
  const held = Promise.withResolvers<void>();
  const first = await start(
    async () => {
      await held.promise;
      return PASS;
    },
    { slots: 1 },
  );
  const second = await start(() => Promise.resolve(PASS));
  await expect
    .poll(() => first.stats.running + second.stats.completed, { timeout: 20_000 })
    .toBeGreaterThan(0);
  held.resolve();
  await Promise.all([first.idle(), second.idle()]);
  expect(first.stats.completed + second.stats.completed).toBe(2);
});
