import { createDatabase } from '@sluice/db';
import { dispatcherRequeueStale } from '@sluice/queue-core/dispatcher';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, onTestFinished, test, vi } from 'vitest';
import { systemClock } from '../src/clock.ts';
import { enqueue, PASS, useDispatchers } from './dispatchers.ts';
import { until } from './until.ts';

const database = useTestDatabase();
const start = useDispatchers(database);

test('its heart goes on beating while it waits for what runs, so that nobody takes it over', async () => {
  const { db } = database;
  await enqueue(db, ['a'], 1);
  const mayEnd = Promise.withResolvers<void>();
  let runs = 0;
  const draining = await start(
    async () => {
      runs += 1;
      await mayEnd.promise;
      return PASS;
    },
    { beatMs: 50, graceMs: 600_000 },
  );
  await until('it runs', () => draining.stats.running === 1);
  const stopped = draining.stop();
  const other = await start(() => {
    runs += 1;
    return Promise.resolve(PASS);
  });
  const beat = async () =>
    (
      await db
        .selectFrom('dispatcher')
        .select('heartbeat_at')
        .where('dispatcher_id', '=', draining.dispatcherId)
        .executeTakeFirstOrThrow()
    ).heartbeat_at;
  for (let beats = 0; beats < 3; beats += 1) {
    const before = await beat();
    await until('it beats', async () => (await beat()) > before);
    expect(await dispatcherRequeueStale(db, { olderThanMs: 0 })).toBe(0);
  }
  mayEnd.resolve();
  await stopped;
  await other.idle();
  expect(runs).toBe(1);
  const rows = await db.selectFrom('effect').select(['state', 'attempts']).execute();
  expect(rows).toEqual([{ state: 'done', attempts: 1 }]);
});

test('while an effect runs, its dispatcher keeps no transaction open', async () => {
  const { db } = database;
  await using own = createDatabase({ connectionString: database.url, applicationName: 'running' });
  await enqueue(db, ['a', 'b'], 1);
  const mayEnd = Promise.withResolvers<void>();
  const dispatcher = await start(
    async (_, { log }) => {
      await log(Buffer.from('started'));
      await mayEnd.promise;
      return PASS;
    },
    { db: own },
  );
  await until('both run', () => dispatcher.stats.running === 2);
  // One that passes is a beat or a look for work: there is a moment without any.
  await until('no transaction is open', async () => {
    const { rows } = await sql`select pid from pg_stat_activity
      where datname = current_database() and application_name = 'running' and xact_start is not null`.execute(
      db,
    );
    return rows.length === 0;
  });
  expect(dispatcher.stats.running).toBe(2);
  mayEnd.resolve();
  await until('both are done', () => dispatcher.stats.completed === 2);
  await dispatcher.stop();
});

test('an effect that is due in a month makes it neither start early nor look again and again', async () => {
  const { db } = database;
  const warnings: string[] = [];
  const onWarning = ({ name }: Error): void => void warnings.push(name);
  process.on('warning', onWarning);
  onTestFinished(() => void process.off('warning', onWarning));
  const MONTH_MS = 30 * 86_400_000;
  await enqueue(db, ['a'], 1, { delayMs: MONTH_MS });
  const slept: number[] = [];
  const clock = {
    ...systemClock,
    sleep: async (ms: number, signal?: AbortSignal) => {
      slept.push(ms);
      await systemClock.sleep(ms, signal);
    },
  };
  const dispatcher = await start(() => Promise.resolve(PASS), {
    clock,
    pollMs: MONTH_MS / 2,
    beatMs: 600_000,
    leaseMs: 1_200_000,
  });
  await until('its loop and its upkeep wait', () => slept.filter((ms) => ms > MONTH_MS / 3).length >= 2);
  await dispatcher.stop();
  expect(dispatcher.stats.claimed).toBe(0);
  expect(warnings).not.toContain('TimeoutOverflowWarning');
  // The pauses of a tight loop; how many longer ones there are depends on how busy the machine is.
  expect(slept.filter((ms) => ms <= 10).length).toBeLessThan(20);
});

test('a wait that is longer than a timer can hold is cut, not taken for none', async () => {
  const timers = vi.spyOn(globalThis, 'setTimeout');
  onTestFinished(() => timers.mockRestore());
  const woken = new AbortController();
  const waiting = systemClock.sleep(2 ** 40, woken.signal);
  expect(timers.mock.calls.map(([, ms]) => ms)).toEqual([2 ** 31 - 1]);
  woken.abort();
  await waiting;
});
