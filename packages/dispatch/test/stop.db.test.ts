import { useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import type { RunContext } from '../src/index.ts';
import { enqueue, names, PASS, useDispatchers } from './dispatchers.ts';
import { until } from './until.ts';

const database = useTestDatabase();
const start = useDispatchers(database);

async function untilAborted({ signal }: RunContext): Promise<void> {
  if (signal.aborted) return;
  await new Promise((resolve) => signal.addEventListener('abort', resolve));
}

test('what is aborted by a stop is handed back, and no attempt is spent', async () => {
  const { db } = database;
  await enqueue(db, names(4), 2);
  const dispatcher = await start(async (_, context) => {
    await untilAborted(context);
    // What an executor makes of a killed process must not be believed.
    return { status: 'done', outcome: 'fail' };
  });
  await until('all run', () => dispatcher.stats.running === 8);
  await dispatcher.stop({ hurry: true });
  const rows = await db.selectFrom('effect').select(['state', 'attempts']).execute();
  expect(rows).toEqual(Array(8).fill({ state: 'enqueued', attempts: 0 }));
  expect(dispatcher.events.flatMap((event) => (event.name === 'effect_ended' ? [event.how] : []))).toEqual(
    Array(8).fill('handed_back'),
  );
  expect(dispatcher.of('dispatcher_stopped')).toMatchObject([{ handedBack: 8, unclosed: 0 }]);
  expect(await db.selectFrom('dispatcher').selectAll().execute()).toEqual([]);
});

test('a run that ends within the grace is completed; nothing new is claimed', async () => {
  const { db } = database;
  await enqueue(db, ['a'], 3);
  const mayEnd = Promise.withResolvers<void>();
  const dispatcher = await start(
    async () => {
      await mayEnd.promise;
      return PASS;
    },
    { slots: 2, graceMs: 600_000 },
  );
  await until('two run', () => dispatcher.stats.running === 2);
  const stopped = dispatcher.stop();
  mayEnd.resolve();
  await stopped;
  const rows = await db.selectFrom('effect').select(['state', 'attempts']).orderBy('effect_id').execute();
  expect(rows).toEqual(
    [
      { state: 'enqueued', attempts: 0 },
      { state: 'done', attempts: 1 },
      { state: 'done', attempts: 1 },
    ].toSorted((a, b) => b.attempts - a.attempts),
  );
});

test('a second stop hurries a patient one', async () => {
  const { db } = database;
  await enqueue(db, ['a'], 1);
  const dispatcher = await start(
    async (_, context) => {
      await untilAborted(context);
      return { status: 'error', message: 'aborted' };
    },
    { graceMs: 600_000 },
  );
  await until('it runs', () => dispatcher.stats.running === 1);
  const patient = dispatcher.stop();
  await dispatcher.stop({ hurry: true });
  await patient;
  expect(await db.selectFrom('effect').select(['state', 'attempts']).execute()).toEqual([
    { state: 'enqueued', attempts: 0 },
  ]);
});

test('a run that ignores its signal does not keep a stop from ending', async () => {
  const { db } = database;
  await enqueue(db, ['a'], 1);
  const mayEnd = Promise.withResolvers<void>();
  const dispatcher = await start(async () => {
    await mayEnd.promise;
    return PASS;
  });
  await until('it runs', () => dispatcher.stats.running === 1);
  await dispatcher.stop({ hurry: true });
  expect(await db.selectFrom('effect').select(['state', 'attempts']).execute()).toEqual([
    { state: 'enqueued', attempts: 0 },
  ]);
  mayEnd.resolve();
});

test('an idle dispatcher stops, and a wait for idleness ends with it', async () => {
  const dispatcher = await start(() => Promise.resolve(PASS), {
    pollMs: 600_000,
    connectionString: database.url,
  });
  await until('it sleeps', async () => {
    const row = await database.db.selectFrom('dispatcher').select('is_sleeping').executeTakeFirst();
    return row?.is_sleeping === true;
  });
  await Promise.all([dispatcher.stop(), dispatcher.idle()]);
});
