import { CHANNELS, createDatabase, listen, type DB } from '@sluice/db';
import { enqueueEffect } from '@sluice/queue-core/repo';
import { useTestDatabase } from '@sluice/testkit';
import { sql, type Kysely } from 'kysely';
import { afterEach, expect, test } from 'vitest';
import type { DispatcherOptions } from '../src/index.ts';
import { PASS, useDispatchers } from './dispatchers.ts';
import { until } from './until.ts';

const database = useTestDatabase();

/** Far beyond every bound of a test: what is found, is found because somebody was told. */
const NEVER_MS = 600_000;

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
  await until('it sleeps', async () => {
    const row = await database.db
      .selectFrom('dispatcher')
      .select('is_sleeping')
      .where('dispatcher_id', '=', dispatcher.dispatcherId)
      .executeTakeFirst();
    return row?.is_sleeping === true;
  });
  return dispatcher;
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

test('a dispatcher on the pool that enqueues is told in memory, and no notification is sent', async () => {
  const db = open();
  const heard = await overhear();
  const dispatcher = await sleeping({ db });
  await enqueueEffect(db, { repoId: 'a', payload: 'alone' });
  await until('it ran', () => dispatcher.stats.completed === 1);
  await Promise.all(['b', 'c'].map((repoId) => enqueueEffect(db, { repoId, payload: 'together' })));
  await until('both ran', () => dispatcher.stats.completed === 3);
  expect(await heard()).toEqual([]);
});

test('so is one that only polls, and does not wait for the poll', async () => {
  const db = open();
  const dispatcher = await start(() => Promise.resolve(PASS), { db, pollMs: NEVER_MS });
  for (const count of [1, 2, 3]) {
    await enqueueEffect(db, { repoId: 'a', payload: '' });
    await until('it ran', () => dispatcher.stats.completed === count);
  }
});

test('who sleeps elsewhere is notified all the same', async () => {
  const db = open();
  const heard = await overhear();
  await sleeping({ db });
  await sleeping({ db: open() });
  const ids = [await enqueueEffect(db, { repoId: 'a', payload: '' })];
  ids.push(...(await Promise.all(['b', 'c'].map((repoId) => enqueueEffect(db, { repoId, payload: '' })))));
  expect(await heard()).toEqual(ids.map(String).sort());
});

test('what a transaction enqueues, what has a time, and what another pool enqueues is notified', async () => {
  const db = open();
  const heard = await overhear();
  const dispatcher = await sleeping({ db });
  const past = new Date(0);
  const ids = [
    await db.transaction().execute((trx) => enqueueEffect(trx, { repoId: 'a', payload: '' })),
    await enqueueEffect(db, { repoId: 'b', payload: '', runAt: past }),
    ...(await Promise.all([
      enqueueEffect(db, { repoId: 'c', payload: '', runAt: past }),
      enqueueEffect(db, { repoId: 'd', payload: '' }),
    ])),
    await enqueueEffect(open(), { repoId: 'e', payload: '' }),
  ];
  await until('all ran', () => dispatcher.stats.completed === ids.length);
  expect(await heard()).toEqual(ids.map(String).sort());
});

test('after its stop it is told no more, and the others are', async () => {
  const db = open();
  const stopped = await sleeping({ db });
  const other = await sleeping({ db: open() });
  await stopped.stop();
  await enqueueEffect(db, { repoId: 'a', payload: '' });
  await until('the other one ran it', () => other.stats.completed === 1);
  expect(stopped.stats.claimed).toBe(0);
});
