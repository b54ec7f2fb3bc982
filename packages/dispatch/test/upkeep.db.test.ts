import { countDeadRows } from '@sluice/queue-core/dispatcher';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { afterEach, expect, test } from 'vitest';
import { enqueue } from './dispatchers.ts';
import { until } from './until.ts';
import { Upkeep } from '../src/upkeep.ts';

const database = useTestDatabase();
const POLL_MS = 60_000;

let stopping = new AbortController();
let running: Promise<void> | undefined;
afterEach(async () => {
  stopping.abort();
  await running;
  stopping = new AbortController();
  await database.db.deleteFrom('effect_queue').execute();
});

/** Upkeep whose time passes only when a test says so. */
function start(parts: { mayJudge?: () => boolean } = {}) {
  const slept: number[] = [];
  const due: string[] = [];
  let now = 0;
  let sweeps = 0;
  let wake = Promise.withResolvers<void>();
  const clock = {
    now: () => now,
    // The bounds of calls pass by nobody: only what upkeep itself waits for is told by its signal.
    sleep: async (ms: number, signal?: AbortSignal) => {
      if (signal !== stopping.signal) {
        await new Promise((resolve) => signal?.addEventListener('abort', resolve));
        return;
      }
      slept.push(ms);
      const stopped = new Promise((resolve) => signal.addEventListener('abort', resolve));
      await Promise.race([wake.promise, stopped]);
      now += ms;
    },
  };
  const upkeep = new Upkeep({
    db: database.db,
    clock,
    emit: () => undefined,
    pollMs: POLL_MS,
    beatMs: 5_000,
    retentionDays: 30,
    mayJudge: parts.mayJudge ?? (() => false),
    onDue: (repoId) => due.push(repoId),
    sweep: () => {
      sweeps += 1;
      return Promise.resolve();
    },
    stop: stopping.signal,
  });
  running = upkeep.run();
  return {
    slept,
    due,
    sweeps: () => sweeps,
    pass: () => {
      const { resolve } = wake;
      wake = Promise.withResolvers();
      resolve();
    },
  };
}

test('a due effect that somebody holds is left to the next round, not asked for again and again', async () => {
  await enqueue(database.db, ['a'], 1, { delayMs: 3_600_000 });
  await sql`update sluice.effect_queue set run_at = now() - interval '1 hour'`.execute(database.db);
  await database.db.transaction().execute(async (holder) => {
    await holder.selectFrom('effect_queue').select('effect_id').forUpdate().execute();
    const { slept, due } = start();
    await until('it waits', () => slept.length === 1);
    expect(slept).toEqual([POLL_MS]);
    expect(due).toEqual([]);
  });
});

test('an effect that becomes due between two rounds is brought forward, and no sweep is made for it', async () => {
  await enqueue(database.db, ['a'], 1, { delayMs: 30_000 });
  const { slept, due, sweeps, pass } = start();
  await until('it waits', () => slept.length === 1);
  expect(slept[0]).toBeGreaterThan(0);
  expect(slept[0]).toBeLessThanOrEqual(30_000);
  await sql`update sluice.effect_queue set run_at = now()`.execute(database.db);
  pass();
  await until('it waits again', () => slept.length === 2);
  expect(due).toEqual(['a']);
  expect(sweeps()).toBe(1);
  pass();
  await until('the next round is over', () => slept.length === 3);
  expect(sweeps()).toBe(2);
});

test('dead rows of a fast queue are removed without waiting for autovacuum', async () => {
  const { db } = database;
  await sql`alter table sluice.effect_queue set (autovacuum_enabled = false)`.execute(db);
  await sql`insert into sluice.effect_queue (repo_id, payload) select 'a', '' from generate_series(1, 30000)`.execute(
    db,
  );
  await db.deleteFrom('effect_queue').execute();
  const dead = async () => (await countDeadRows(db)).get('effect_queue')!;
  await until('the statistics know of the dead rows', async () => (await dead()) >= 30_000);
  start();
  await until('they are gone', async () => (await dead()) === 0);
});
