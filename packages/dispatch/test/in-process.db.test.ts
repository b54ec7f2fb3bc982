import { CHANNELS, createDatabase, listen, type DB } from '@sluice/db';
import { enqueueEffect, enqueueEffects, type NewEffect } from '@sluice/queue-core/repo';
import { useTestDatabase } from '@sluice/testkit';
import { sql, type Kysely } from 'kysely';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import type { DispatcherOptions } from '../src/index.ts';
import { PASS, useDispatchers, type TestDispatcher } from './dispatchers.ts';
import { until } from './until.ts';

const database = useTestDatabase();

/** Far beyond every bound of a test: what is found, is found because somebody was told. */
const NEVER_MS = 600_000;
const DAY_MS = 86_400_000;

const effectOf = (repoId: string): NewEffect => ({ repoId, payload: '' });

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

// Before the pools that they are on are closed, the dispatchers are stopped.
const start = useDispatchers(database);

function open(): Kysely<DB> {
  const db = createDatabase({ connectionString: database.url, applicationName: 'in process' });
  cleanups.push(() => db.destroy());
  return db;
}

async function sleeping(options: Partial<DispatcherOptions> & { db: Kysely<DB> }) {
  const dispatcher = await start(() => Promise.resolve(PASS), {
    connectionString: database.url,
    pollMs: NEVER_MS,
    ...options,
  });
  await untilAsleep(dispatcher);
  return dispatcher;
}

async function untilAsleep(dispatcher: TestDispatcher): Promise<void> {
  await until('it sleeps', async () => {
    const row = await database.db
      .selectFrom('dispatcher')
      .select('is_sleeping')
      .where('dispatcher_id', '=', dispatcher.dispatcherId)
      .executeTakeFirst();
    return row?.is_sleeping === true;
  });
}

/** Hears all notifications; returns the effects that those so far were about, sorted. */
async function overhear(): Promise<() => Promise<string[]>> {
  const heard: string[] = [];
  const ready = Promise.withResolvers<void>();
  const listener = listen({
    connectionString: database.url,
    channels: [CHANNELS.effects],
    onNotification: (_, payload) => heard.push(payload),
    onReady: ready.resolve,
    onError: ready.reject,
  });
  cleanups.push(async () => await listener[Symbol.asyncDispose]());
  await ready.promise;
  return async () => {
    await sql`select pg_notify(${CHANNELS.effects}, 'so far')`.execute(database.db);
    await until('all so far were heard', () => heard.at(-1) === 'so far');
    return heard.flatMap((payload) => (payload === 'so far' ? [] : payload.split(' ')[0]!)).sort();
  };
}

/** Longer than it looks around after falling asleep: what is found later, it was told of. */
const LOOKED_MS = 500;

test('a dispatcher on the pool that enqueues is told in memory, and no notification is sent', async () => {
  const db = open();
  const heard = await overhear();
  const dispatcher = await sleeping({ db });
  await sleep(LOOKED_MS);
  await enqueueEffect(db, { repoId: 'a', payload: 'alone' });
  await until('it ran', () => dispatcher.stats.completed === 1);
  await Promise.all(['b', 'c'].map((repoId) => enqueueEffect(db, { repoId, payload: 'together' })));
  await until('both ran', () => dispatcher.stats.completed === 3);
  await enqueueEffects(db, ['d', 'e', 'd'].map(effectOf));
  await until('the batch ran', () => dispatcher.stats.completed === 6);
  expect(await heard()).toEqual([]);
});

test('so is one that only polls, whatever is enqueued, and does not wait for the poll', async () => {
  const db = open();
  const dispatcher = await start(() => Promise.resolve(PASS), { db, pollMs: NEVER_MS });
  await db.insertInto('repo').values({ repo_id: 'limited', max_queued: 5 }).execute();
  const enqueues = [
    () => enqueueEffect(db, effectOf('a')),
    () => enqueueEffect(db, { ...effectOf('a'), dedupKey: 'k' }),
    () => enqueueEffect(db, { ...effectOf('a'), runAt: new Date(0) }),
    () => enqueueEffect(db, effectOf('limited')),
    () => enqueueEffects(db, [{ ...effectOf('a'), concurrencyGroup: 'g', supersede: true }]),
    () =>
      Promise.all([
        enqueueEffect(db, effectOf('b')),
        enqueueEffect(db, { ...effectOf('c'), delayMs: DAY_MS }),
      ]),
  ];
  for (const [count, enqueue] of enqueues.entries()) {
    await enqueue();
    await until('it ran', () => dispatcher.stats.completed === count + 1);
  }
});

test('two on one pool are both told, and under the ids that they have now', async () => {
  const db = open();
  const heard = await overhear();
  const [one, other] = [await sleeping({ db }), await sleeping({ db })];
  const before = one.dispatcherId;
  await database.db.deleteFrom('dispatcher').where('dispatcher_id', '=', before).execute();
  await until('it is registered anew', () => one.dispatcherId !== before);
  await untilAsleep(one);
  const ids = [];
  for (const repoId of ['a', 'b', 'c']) ids.push(await enqueueEffect(db, effectOf(repoId)));
  await until('all ran', () => one.stats.completed + other.stats.completed === ids.length);
  expect(await heard()).toEqual([]);
});

test('who sleeps elsewhere is notified all the same', async () => {
  const db = open();
  const heard = await overhear();
  await sleeping({ db });
  await sleeping({ db: open() });
  const ids = [await enqueueEffect(db, effectOf('a'))];
  ids.push(...(await Promise.all(['b', 'c'].map((repoId) => enqueueEffect(db, effectOf(repoId))))));
  expect(await heard()).toEqual(ids.map(String).sort());
});

test('what a transaction enqueues, what has a time, and what another pool enqueues is notified', async () => {
  const db = open();
  const heard = await overhear();
  const dispatcher = await sleeping({ db });
  const past = new Date(0);
  const ids = [
    await db.transaction().execute((trx) => enqueueEffect(trx, effectOf('a'))),
    await enqueueEffect(db, { ...effectOf('b'), runAt: past }),
    ...(await Promise.all([
      enqueueEffect(db, { ...effectOf('c'), runAt: past }),
      enqueueEffect(db, effectOf('d')),
    ])),
    await enqueueEffect(open(), effectOf('e')),
  ];
  await until('all ran', () => dispatcher.stats.completed === ids.length);
  expect(await heard()).toEqual(ids.map(String).sort());
});

test('many effects are found many at a time, as those of other processes are', async () => {
  const db = open();
  let claims = 0;
  const counted = createDatabase({
    connectionString: database.url,
    applicationName: 'counted',
    log: ({ query }) => {
      if (query.sql.includes('fair_claim')) claims += 1;
    },
  });
  cleanups.push(() => counted.destroy());
  const dispatcher = await sleeping({ db: counted, slots: 100 });
  const enqueueSome = async () => {
    for (let n = 0; n < 150; n += 1) await enqueueEffect(counted, effectOf(`repo${n % 50}`));
  };
  await Promise.all(Array.from({ length: 20 }, enqueueSome));
  await until('all ran', () => dispatcher.stats.completed === 3_000);
  expect(claims).toBeLessThan(1_000);
  await enqueueEffect(db, effectOf('last'));
  await until('the last one ran', () => dispatcher.stats.completed === 3_001);
});
