import { countDeadRows } from '@sluice/queue-core/dispatcher';
import { createDatabase, type DB } from '@sluice/db';
import { untilRemovable, useTestDatabase } from '@sluice/testkit';
import { sql, type Kysely } from 'kysely';
import { afterEach, expect, test } from 'vitest';
import { enqueue } from './dispatchers.ts';
import { until } from './until.ts';
import type { DispatchEvent } from '../src/dispatch-event.ts';
import { Upkeep } from '../src/upkeep.ts';

const database = useTestDatabase();
const POLL_MS = 60_000;

let stopping = new AbortController();
let running: Promise<void> | undefined;
const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  stopping.abort();
  await running;
  stopping = new AbortController();
  for (const cleanup of cleanups.splice(0)) await cleanup();
  await database.db.deleteFrom('effect_queue').execute();
});

/** Upkeep whose time passes only when a test says so. */
function start(parts: { db?: Kysely<DB>; emit?: (event: DispatchEvent) => void } = {}) {
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
    db: parts.db ?? database.db,
    clock,
    emit: parts.emit ?? (() => undefined),
    pollMs: POLL_MS,
    beatMs: 5_000,
    retentionDays: 30,
    mayJudge: () => false,
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

async function deadRows(): Promise<number> {
  return (await countDeadRows(database.db)).get('effect_queue')!;
}

/** Leaves 30,000 behind, which only upkeep will remove, and can. */
async function makeDeadRows(): Promise<void> {
  const { db } = database;
  await sql`alter table sluice.effect_queue set (autovacuum_enabled = false)`.execute(db);
  await sql`insert into sluice.effect_queue (repo_id, payload) select 'a', '' from generate_series(1, 30000)`.execute(
    db,
  );
  await db.deleteFrom('effect_queue').execute();
  await until('the statistics know of the dead rows', async () => (await deadRows()) >= 30_000);
  await untilRemovable(db);
}

test('dead rows of a fast queue are removed without waiting for autovacuum', async () => {
  await makeDeadRows();
  start();
  // A connection tells of the few rows that it deleted before up to ten seconds late.
  await until('they are gone', async () => (await deadRows()) < 100);
});

test('a vacuum that takes longer than the pool lets a query take is not begun anew in each round', async () => {
  await makeDeadRows();
  const url = new URL(database.url);
  url.searchParams.set('options', '-c vacuum_cost_delay=100 -c vacuum_cost_limit=1');
  let [vacuums, counts] = [0, 0];
  const db = createDatabase({
    connectionString: url.href,
    applicationName: 'slow vacuum',
    queryTimeoutMs: 3_000,
    log: ({ query }) => {
      if (query.sql.startsWith('vacuum')) vacuums += 1;
      if (query.sql.includes('pg_stat_get_dead_tuples')) counts += 1;
    },
  });
  cleanups.push(() => db.destroy());
  const events: DispatchEvent[] = [];
  const { slept, pass } = start({ db, emit: (event) => events.push(event) });
  await until('it is cut off', () =>
    events.some((event) => event.name === 'upkeep_failed' && event.task === 'vacuum'),
  );
  expect(await deadRows()).toBeGreaterThanOrEqual(30_000);
  // The server would go on with it, and another one leave the table alone.
  await sql`select pg_terminate_backend(pid, 20000) from pg_stat_activity
             where datname = current_database() and query like 'vacuum%' and state = 'active'`.execute(
    database.db,
  );
  for (const round of [2, 3]) {
    await until('it waits', () => slept.length === round - 1);
    pass();
    await until('it has counted again', () => counts === round);
  }
  expect(vacuums).toBe(1);
});
