import { createDatabase } from '@sluice/db';
import { heartbeat, registerDispatcher } from '@sluice/queue-core/dispatcher';
import { claimEffects } from '@sluice/queue-core/repo';
import { startTcpProxy, useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../src/clock.ts';
import { Lease } from '../src/lease.ts';
import { enqueue, PASS, useDispatchers } from './dispatchers.ts';
import { until } from './until.ts';

const database = useTestDatabase();
const start = useDispatchers(database);

/** A beat that only this clock can tell from other waits, so that a test can stop the heart and start it again. */
const BEAT_MS = 123_456;

function stoppedHeart() {
  const resume = new AbortController();
  const clock = {
    ...systemClock,
    sleep: async (ms: number, signal?: AbortSignal) => {
      if (ms !== BEAT_MS) return await systemClock.sleep(ms, signal);
      if (resume.signal.aborted) return await systemClock.sleep(5_000, signal);
      const either = signal === undefined ? resume.signal : AbortSignal.any([resume.signal, signal]);
      return await systemClock.sleep(600_000, either);
    },
  };
  return { clock, beatMs: BEAT_MS, resume: () => resume.abort() };
}

/** An effect with an open claim on it, from the first moment on. */
async function claimed(repoId: string, claimant: string): Promise<void> {
  await database.db.transaction().execute(async (trx) => {
    const { effect_id } = await trx
      .insertInto('effect_queue')
      .values({ repo_id: repoId, payload: '' })
      .returning('effect_id')
      .executeTakeFirstOrThrow();
    await trx
      .insertInto('effect_claim')
      .values({ repo_id: repoId, effect_id, attempt: 1, claimant })
      .execute();
  });
}

async function claimants(): Promise<string[]> {
  const rows = await database.db.selectFrom('effect_claim').select('claimant').orderBy('effect_id').execute();
  return rows.map(({ claimant }) => claimant);
}

async function lockWaiters(): Promise<number> {
  const { rows } = await sql`
    select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`.execute(
    database.db,
  );
  return rows.length;
}

/**
 * A dispatcher that may judge others at once. Its beats are long: what is late by one of them, because the machine is
 * slow, is taken for trouble, or for a leap of the database's clock, and nobody would be judged.
 */
async function startJudge(run: Parameters<typeof start>[0], options: Parameters<typeof start>[1] = {}) {
  const beatMs = 5_000;
  let aheadMs = 0;
  const clock = { ...systemClock, now: () => systemClock.now() + aheadMs };
  const judge = await start(run, { clock, beatMs, leaseMs: 60_000, ...options });
  aheadMs = 2 * beatMs;
  return judge;
}

test('a dispatcher whose heart stopped loses its claims; another runs them as attempt 2; the first cannot complete', async () => {
  const { db } = database;
  await enqueue(db, ['a'], 1);
  const heart = stoppedHeart();
  const mayEnd = Promise.withResolvers<void>();
  let signal: AbortSignal | undefined;
  const first = await start(
    async (_, context) => {
      signal = context.signal;
      await mayEnd.promise;
      return { status: 'done', outcome: 'pass', reason: 'by the first' };
    },
    // Only this one claims for now, and it does not judge itself.
    { clock: heart.clock, beatMs: heart.beatMs, leaseMs: 2 * heart.beatMs, pollMs: 600_000 },
  );
  await until('the first runs it', () => first.stats.running === 1);
  const firstId = first.dispatcherId;
  await db
    .updateTable('dispatcher')
    .set({ heartbeat_at: new Date(0) })
    .where('dispatcher_id', '=', firstId)
    .execute();
  const second = await startJudge(({ attempt }) =>
    Promise.resolve({ status: 'done', outcome: 'pass', reason: `by the second, attempt ${attempt}` }),
  );
  await until('the second has completed it', () => second.stats.completed === 1);
  expect(signal?.aborted).toBe(false);
  heart.resume();
  await until('the first notices', () => signal?.aborted === true);
  mayEnd.resolve();
  await until('its late completion is refused', () => first.stats.stale === 1);
  await until('it is back under a new id', () => first.dispatcherId !== firstId);
  const rows = await db.selectFrom('effect_history').select(['attempts', 'reason']).execute();
  expect(rows).toEqual([{ attempts: 2, reason: 'by the second, attempt 2' }]);
  expect(first.of('dispatcher_declared_dead')).toEqual([
    { name: 'dispatcher_declared_dead', dispatcherId: firstId },
  ]);
});

test('what an aborted run says is not believed, even where its claim turns out to be open still', async () => {
  const { db } = database;
  await enqueue(db, ['a'], 1);
  let runs = 0;
  const dispatcher = await start(
    async (_, { signal }) => {
      runs += 1;
      if (runs > 1) return PASS;
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      // What an executor makes of a killed process.
      return { status: 'done', outcome: 'fail' };
    },
    { beatMs: 50 },
  );
  await until('it runs', () => dispatcher.stats.running === 1);
  await db.deleteFrom('dispatcher').where('dispatcher_id', '=', dispatcher.dispatcherId).execute();
  await until('it has run again', () => dispatcher.stats.completed === 1);
  const row = await db.selectFrom('effect_history').select(['outcome', 'attempts']).executeTakeFirst();
  expect(row).toEqual({ outcome: 'pass', attempts: 1 });
});

test('it claims again under its new id', async () => {
  const { db } = database;
  const dispatcher = await start(() => Promise.resolve(PASS), { beatMs: 50 });
  const before = dispatcher.dispatcherId;
  await db.deleteFrom('dispatcher').where('dispatcher_id', '=', before).execute();
  await until('it has a new id', () => dispatcher.dispatcherId !== before);
  await enqueue(db, ['a'], 3);
  await until('it runs again', () => dispatcher.stats.completed === 3);
  const rows = await db.selectFrom('effect_history').select('claimant').distinct().execute();
  expect(rows).toEqual([{ claimant: dispatcher.dispatcherId }]);
});

test('a live heartbeat protects a claim, however long it runs', async () => {
  const { db } = database;
  await enqueue(db, ['a'], 1);
  const mayEnd = Promise.withResolvers<void>();
  const first = await start(
    async () => {
      await mayEnd.promise;
      return PASS;
    },
    { beatMs: 100, pollMs: 600_000 },
  );
  await until('it runs', () => first.stats.running === 1);
  // For the second to take back, so that it is seen to judge; nobody may run it.
  await db.insertInto('repo').values({ repo_id: 'b', paused_at: new Date() }).execute();
  await claimed('b', 'gone');
  await db
    .updateTable('effect_claim')
    .set({ claimed_at: new Date(0) })
    .execute();
  const second = await startJudge(() => Promise.resolve(PASS), { pollMs: 20 });
  await until('the second judges', () => second.of('stale_requeued').length > 0);
  expect(second.of('stale_requeued')).toEqual([{ name: 'stale_requeued', count: 1 }]);
  await second.idle();
  expect(second.stats.claimed).toBe(0);
  mayEnd.resolve();
  await until('it ends', () => first.stats.completed === 1);
  expect(first.stats.stale).toBe(0);
});

test('a dispatcher that has just started judges nobody: after an outage it may come before the beats of the others', async () => {
  const { db } = database;
  const process = { host: 'other', pid: 1, slots: 1, leaseMs: 20_000 };
  const [late, dead] = [await registerDispatcher(db, process), await registerDispatcher(db, process)];
  await claimed('late', late);
  await claimed('dead', dead);
  await sql`update sluice.dispatcher set heartbeat_at = clock_timestamp() - interval '21 s'`.execute(db);
  let aheadMs = 0;
  const clock = { ...systemClock, now: () => systemClock.now() + aheadMs };
  const beatMs = 600_000;
  const repos: string[] = [];
  const fresh = await start(
    ({ repoId }) => {
      repos.push(repoId);
      return Promise.resolve(PASS);
    },
    { clock, beatMs, leaseMs: 4 * beatMs },
  );
  // Begun at the end of its first round, in which it would have judged.
  await until('that is over', () => fresh.of('partitions_maintained').length > 0);
  expect(await claimants()).toEqual([late, dead]);
  expect(await heartbeat(db, late)).toBe('alive');
  aheadMs = 2 * beatMs;
  await until('it has taken the claims of the one that never came back', () => fresh.stats.completed === 1);
  expect(repos).toEqual(['dead']);
  expect(await claimants()).toEqual([late]);
});

test('one that stood still itself judges nobody until it has beaten for a while', async () => {
  const beatMs = 60_000;
  let now = 0;
  let beats = 0;
  let beatNow = (): void => undefined;
  const lease = new Lease({
    db: database.db,
    heartbeatDb: database.db,
    clock: {
      now: () => now,
      sleep: (ms, signal) =>
        new Promise((resolve) => {
          signal?.addEventListener('abort', () => resolve());
          if (ms !== beatMs) return;
          beats += 1;
          beatNow = resolve;
        }),
    },
    terms: { slots: 1, leaseMs: 4 * beatMs, beatMs },
    emit: () => undefined,
    onLost: () => undefined,
    onRegistered: () => undefined,
  });
  await lease.begin();
  now += 2 * beatMs + 1;
  expect(lease.isSettled).toBe(true);
  now += 2 * beatMs;
  expect(lease.isSettled).toBe(false);
  beatNow();
  await until('it has beaten', () => beats === 2);
  expect(lease.isSettled).toBe(false);
  now += 2 * beatMs + 1;
  expect(lease.isSettled).toBe(true);
  await lease.end();
});

test('claims whose answer was lost are handed back', async () => {
  const { db } = database;
  const dispatcher = await start(() => Promise.resolve(PASS));
  await claimed('a', dispatcher.dispatcherId);
  await until('it is run after all', () => dispatcher.stats.completed === 1);
  const row = await db.selectFrom('effect_history').select(['state', 'attempts']).executeTakeFirst();
  expect(row).toEqual({ state: 'done', attempts: 1 });
});

test('an end waits for a heartbeat no longer than for any other call, however rarely it beats', async () => {
  const { db } = database;
  const beatMs = 60_000;
  const firstBeat = new AbortController();
  const shortTimes = new AbortController();
  let waits = 0;
  // Time passes only where the test says so: until the first beat, and what is shorter than a beat.
  const clock = {
    ...systemClock,
    sleep: async (ms: number, signal?: AbortSignal) => {
      if (ms === beatMs && (waits += 1) === 1) return await systemClock.sleep(600_000, firstBeat.signal);
      const signals = [signal, ms < beatMs ? shortTimes.signal : undefined].filter(
        (each) => each !== undefined,
      );
      await systemClock.sleep(600_000, AbortSignal.any(signals));
    },
  };
  const failures: unknown[] = [];
  const lease = new Lease({
    db,
    heartbeatDb: db,
    clock,
    terms: { slots: 1, leaseMs: 2 * beatMs, beatMs },
    emit: (event) => {
      if (event.name === 'heartbeat_failed') failures.push(event.error);
    },
    onLost: () => undefined,
    onRegistered: () => undefined,
  });
  await lease.begin();
  await db.transaction().execute(async (holder) => {
    await holder.selectFrom('dispatcher').select('dispatcher_id').forUpdate().execute();
    firstBeat.abort();
    await until('the heartbeat waits for its row', async () => (await lockWaiters()) === 1);
    const ended = lease.end();
    shortTimes.abort();
    await ended;
  });
  expect(failures.map(String)).toEqual([
    expect.stringContaining('a heartbeat took longer than 5000 ms'),
    expect.stringContaining('unregistering took longer than 5000 ms'),
  ]);
});

test('an end that was the victim of a deadlock gives its claims back all the same', async () => {
  const { db } = database;
  const failures: unknown[] = [];
  const lease = new Lease({
    db,
    heartbeatDb: db,
    clock: systemClock,
    terms: { slots: 1, leaseMs: 120_000, beatMs: 60_000 },
    emit: (event) => {
      if (event.name === 'heartbeat_failed') failures.push(event.error);
    },
    onLost: () => undefined,
    onRegistered: () => undefined,
  });
  await lease.begin();
  await enqueue(db, ['a'], 2);
  const claims = await claimEffects(db, { repoId: 'a', claimedBy: lease.lastId, limit: 2 });
  const ended = await db.transaction().execute(async (other) => {
    // Whoever waits for less is the victim.
    await sql`set local deadlock_timeout = '60s'`.execute(other);
    const lock = async (index: number) =>
      await other
        .selectFrom('effect_claim')
        .select('effect_id')
        .where('effect_id', '=', claims[index]!.effectId)
        .forUpdate()
        .execute();
    await lock(1);
    const ending = lease.end();
    await until('it waits for a claim, and holds the other', async () => (await lockWaiters()) === 1);
    await lock(0);
    return { ending };
  });
  await ended.ending;
  expect(failures).toEqual([]);
  expect(await db.selectFrom('effect_claim').selectAll().execute()).toEqual([]);
  const own = db.selectFrom('dispatcher').selectAll().where('dispatcher_id', '=', lease.lastId);
  expect(await own.execute()).toEqual([]);
});

test('a heartbeat that has to wait for its row takes no connection from what runs', async () => {
  const { db } = database;
  const dispatcher = await start(() => Promise.resolve(PASS), { beatMs: 20 });
  await db.transaction().execute(async (holder) => {
    await holder.selectFrom('dispatcher').select('dispatcher_id').forUpdate().execute();
    // More than there are connections.
    await until('many beats are late', () => dispatcher.of('heartbeat_failed').length > 20);
    await enqueue(db, ['a', 'b'], 5);
    await until('all are run', () => dispatcher.stats.completed === 10);
  });
  expect(dispatcher.of('dispatcher_declared_dead')).toEqual([]);
});

test('it beats again after a silence, although nothing that was sent in it is ever answered', async () => {
  const { db, url } = database;
  const { hostname, port } = new URL(url);
  const server = { host: hostname, port: Number(port || 5432) };
  // What is behind loses its connections in silence, as a network does that forgets them; new ones pass.
  const forgetful = await startTcpProxy(server);
  const way = { host: '127.0.0.1', port: forgetful.port };
  const front = await startTcpProxy(way);
  const connectionString = front.through(url);
  const own = createDatabase({ connectionString, applicationName: 'silenced' });
  const heartbeatDb = createDatabase({
    connectionString,
    applicationName: 'silenced heart',
    connectionsMax: 2,
    connectTimeoutMs: 1_000,
    queryTimeoutMs: 1_000,
  });
  onTestFinished(async () => {
    forgetful.cut();
    await Promise.all([own.destroy(), heartbeatDb.destroy()]);
    await Promise.all([front, forgetful].map((proxy) => proxy[Symbol.asyncDispose]()));
  });
  const mayEnd = Promise.withResolvers<void>();
  const run = async () => {
    await mayEnd.promise;
    return PASS;
  };
  await enqueue(db, ['a'], 1);
  const dispatcher = await start(run, { db: own, heartbeatDb, beatMs: 200 });
  await until('it runs', () => dispatcher.stats.running === 1);
  const beat = async () =>
    (
      await db
        .selectFrom('dispatcher')
        .select('heartbeat_at')
        .where('dispatcher_id', '=', dispatcher.dispatcherId)
        .executeTakeFirstOrThrow()
    ).heartbeat_at;
  forgetful.freeze();
  // As many as may be under way, and one more.
  await until('it notices', () => dispatcher.of('heartbeat_failed').length > 2);
  const last = await beat();
  Object.assign(way, server);
  await until('it beats again', async () => (await beat()) > last);
  expect(dispatcher.of('dispatcher_declared_dead')).toEqual([]);
  forgetful.cut();
  mayEnd.resolve();
  await until('it has completed its effect', () => dispatcher.stats.completed === 1);
  await dispatcher.stop();
});
