import { sql } from 'kysely';
import { useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { enqueue, PASS, useDispatchers } from './dispatchers.ts';
import { until } from './until.ts';

const database = useTestDatabase();
const start = useDispatchers(database);

/** Far beyond every bound of a test: what is found, is found by a notification. */
const NEVER_MS = 600_000;

async function isAsleep(): Promise<boolean> {
  const row = await database.db.selectFrom('dispatcher').select('is_sleeping').executeTakeFirst();
  return row?.is_sleeping === true;
}

/** Rows put in so that no notification is sent, as if it had been lost. */
async function insertSilently(repoId: string): Promise<void> {
  await database.db.insertInto('effect_queue').values({ repo_id: repoId, payload: '' }).execute();
}

/** How many are there; a connection that was closed a moment ago may be one of them. */
async function listeners(): Promise<number> {
  const { rows } = await sql`
    select 1 from pg_stat_activity
     where datname = current_database() and application_name = 'sluice-listen'`.execute(database.db);
  return rows.length;
}

async function killListener(): Promise<void> {
  await sql`
    select pg_terminate_backend(pid) from pg_stat_activity
     where datname = current_database() and application_name = 'sluice-listen'`.execute(database.db);
}

test('a sleeping dispatcher is woken by a notification', async () => {
  const dispatcher = await start(() => Promise.resolve(PASS), {
    connectionString: database.url,
    pollMs: NEVER_MS,
  });
  await until('it listens', () => dispatcher.of('listening').length === 1);
  await until('it sleeps', isAsleep);
  await enqueue(database.db, ['a'], 1);
  await until('it ran', () => dispatcher.stats.completed === 1);
});

test('effects that arrive one by one are all run, whether they find it asleep or awake', async () => {
  const dispatcher = await start(() => Promise.resolve(PASS), {
    connectionString: database.url,
    pollMs: 2_000,
  });
  for (let count = 1; count <= 50; count++) {
    await enqueue(database.db, [`repo${count % 7}`], 1);
    if (count % 3 === 0) await until('all so far have run', () => dispatcher.stats.completed === count);
  }
  await until('all have run', () => dispatcher.stats.completed === 50);
});

test('a burst wakes it up, after which no notifications are sent until it sleeps again', async () => {
  const mayEnd = Promise.withResolvers<void>();
  const dispatcher = await start(
    async () => {
      await mayEnd.promise;
      return PASS;
    },
    { connectionString: database.url, pollMs: NEVER_MS, slots: 2 },
  );
  await until('it listens', () => dispatcher.of('listening').length === 1);
  await until('it sleeps', isAsleep);
  await enqueue(database.db, ['a', 'b', 'c'], 4);
  await until('its slots are full', () => dispatcher.stats.running === 2);
  mayEnd.resolve();
  await until('all ran', () => dispatcher.stats.completed === 12);
  await until('it sleeps again', isAsleep);
});

test('an effect whose notification was lost is found by polling', async () => {
  const dispatcher = await start(() => Promise.resolve(PASS), {
    connectionString: database.url,
    pollMs: 100,
  });
  await until('it listens', () => dispatcher.of('listening').length === 1);
  await until('it sleeps', isAsleep);
  await insertSilently('a');
  await until('it ran', () => dispatcher.stats.completed === 1);
});

test('a killed LISTEN connection is replaced, and what came meanwhile is found by a sweep', async () => {
  const dispatcher = await start(() => Promise.resolve(PASS), {
    connectionString: database.url,
    pollMs: NEVER_MS,
  });
  await until('it listens', () => dispatcher.of('listening').length === 1);
  await until('it sleeps', isAsleep);
  await insertSilently('during');
  await killListener();
  await until('it listens again', () => dispatcher.of('listening').length === 2);
  await until('what came during the gap has run', () => dispatcher.stats.completed === 1);
  expect(dispatcher.of('listen_failed').length).toBeGreaterThan(0);
  await enqueue(database.db, ['after'], 1);
  await until('what came after it has run', () => dispatcher.stats.completed === 2);
});

test('a server that lost what it was told, as one that stands in for another may have, is told again that it sleeps', async () => {
  const dispatcher = await start(() => Promise.resolve(PASS), {
    connectionString: database.url,
    pollMs: NEVER_MS,
  });
  await until('it listens', () => dispatcher.of('listening').length === 1);
  await until('it sleeps', isAsleep);
  await database.db.updateTable('dispatcher').set({ is_sleeping: false }).execute();
  await killListener();
  await until('it sleeps again', isAsleep);
});

test('it can be stopped in the middle of reconnecting', async () => {
  const dispatcher = await start(() => Promise.resolve(PASS), {
    connectionString: database.url,
    pollMs: NEVER_MS,
  });
  await until('it listens', () => dispatcher.of('listening').length === 1);
  await killListener();
  await dispatcher.stop();
  await until('no connection listens', async () => (await listeners()) === 0);
});
