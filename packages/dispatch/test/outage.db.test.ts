import { createDatabase } from '@sluice/db';
import { sql } from 'kysely';
import { useTestDatabase, startTcpProxy } from '@sluice/testkit';
import { afterEach, expect, test } from 'vitest';
import { enqueue, names, PASS, useDispatchers } from './dispatchers.ts';
import { until } from './until.ts';

const database = useTestDatabase();
const start = useDispatchers(database);

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

function ownPool(connectionString: string) {
  const db = createDatabase({ connectionString, applicationName: 'cut', connectTimeoutMs: 2_000 });
  cleanups.push(() => db.destroy());
  return db;
}

test('with all its connections killed again and again, everything is run and closed', async () => {
  const { db, url } = database;
  await enqueue(db, names(10), 20);
  const counts = new Map<string, number>();
  const dispatcher = await start(
    async ({ payload }) => {
      counts.set(payload, (counts.get(payload) ?? 0) + 1);
      await new Promise((resolve) => setTimeout(resolve, 5));
      return PASS;
    },
    { db: ownPool(url), connectionString: url },
  );
  for (const done of [20, 60, 100, 140]) {
    await until(`${done} are done`, () => dispatcher.stats.completed >= done);
    await sql`select pg_terminate_backend(pid) from pg_stat_activity
               where datname = current_database() and application_name in ('cut', 'sluice-listen')`.execute(
      db,
    );
  }
  await until('all are in history', async () => {
    const rows = await db.selectFrom('effect_history').select('effect_id').execute();
    return rows.length === 200;
  });
  const rows = await db.selectFrom('effect_history').select(['state', 'payload', 'attempts']).execute();
  expect(new Set(rows.map(({ payload }) => payload)).size).toBe(200);
  // A cut connection is no reason to run anything twice: it lost no claim.
  expect(rows.filter(({ state, attempts }) => state !== 'done' || attempts !== 1)).toEqual([]);
  expect([...counts].filter(([, count]) => count !== 1)).toEqual([]);
  await dispatcher.idle();
  // Not even where the answer to a completion was lost: then history says that it was ours.
  expect(dispatcher.stats).toMatchObject({ completed: 200, stale: 0 });
});

test('runs go on while the database is away, and what they gave is stored when it is back', async () => {
  const { db, url } = database;
  const { hostname, port } = new URL(url);
  const proxy = await startTcpProxy({ host: hostname, port: Number(port || 5432) });
  const own = ownPool(proxy.through(url));
  cleanups.push(async () => await proxy[Symbol.asyncDispose]());
  await enqueue(db, names(8), 1);
  const mayEnd = Promise.withResolvers<void>();
  const signals: AbortSignal[] = [];
  const dispatcher = await start(
    async (_, { signal }) => {
      signals.push(signal);
      await mayEnd.promise;
      return PASS;
    },
    { db: own, beatMs: 100 },
  );
  await until('all run', () => dispatcher.stats.running === 8);
  await proxy.refuse();
  proxy.cut();
  await until('it notices', () => dispatcher.of('heartbeat_failed').length > 0);
  mayEnd.resolve();
  await until('completions are kept', () => dispatcher.of('completion_delayed').length > 1);
  expect(dispatcher.stats.running).toBe(0);
  expect(signals.flatMap(({ aborted, reason }) => (aborted ? [String(reason)] : []))).toEqual([]);
  await proxy.accept();
  await until('they are stored', () => dispatcher.stats.completed === 8);
  const rows = await db.selectFrom('effect_history').select(['state', 'attempts']).execute();
  expect(rows).toEqual(Array(8).fill({ state: 'done', attempts: 1 }));
  await dispatcher.stop();
});

test('a stop ends although the database is away', async () => {
  const { db, url } = database;
  const { hostname, port } = new URL(url);
  const proxy = await startTcpProxy({ host: hostname, port: Number(port || 5432) });
  const own = ownPool(proxy.through(url));
  cleanups.push(async () => await proxy[Symbol.asyncDispose]());
  await enqueue(db, ['a'], 1);
  const dispatcher = await start(
    async (_, { signal }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      return PASS;
    },
    { db: own },
  );
  await until('it runs', () => dispatcher.stats.running === 1);
  await proxy.refuse();
  proxy.cut();
  await dispatcher.stop({ hurry: true });
  expect(dispatcher.of('dispatcher_stopped')).toMatchObject([{ handedBack: 0, unclosed: 1 }]);
  expect(await db.selectFrom('effect_claim').select('attempt').execute()).toEqual([{ attempt: 1 }]);
});
