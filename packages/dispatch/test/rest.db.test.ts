import { createDatabase } from '@sluice/db';
import { registerDispatcher } from '@sluice/queue-core/dispatcher';
import { startTcpProxy, useTestDatabase } from '@sluice/testkit';
import { afterEach, expect, test } from 'vitest';
import { Claimer } from '../src/claimer.ts';
import { systemClock } from '../src/clock.ts';
import { NewsRate } from '../src/news-rate.ts';
import { Rest } from '../src/rest.ts';
import { WakeUp } from '../src/wake-up.ts';

const database = useTestDatabase();

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function rested() {
  const { db, url } = database;
  const id = await registerDispatcher(db, { host: 'here', pid: 1, slots: 1, leaseMs: 20_000 });
  const { hostname, port } = new URL(url);
  const proxy = await startTcpProxy({ host: hostname, port: Number(port || 5432) });
  cleanups.push(async () => await proxy[Symbol.asyncDispose]());
  let areAnswersLost = false;
  const own = createDatabase({
    connectionString: proxy.through(url),
    applicationName: 'rest',
    // Called when the statement has been run.
    log: () => {
      if (areAnswersLost) throw new Error('Connection terminated');
    },
  });
  cleanups.push(() => own.destroy());
  let now = 0;
  const clock = { ...systemClock, now: () => now };
  const [news, wakeUp] = [new NewsRate(clock), new WakeUp(clock)];
  const rest = new Rest({
    db: own,
    clock,
    pollMs: 600_000,
    claimer: new Claimer({ db, clock, emit: () => undefined, defaultCap: 1 }),
    wakeUp,
    news,
    isListening: () => true,
    currentId: () => id,
  });
  return {
    rest,
    proxy,
    loseAnswers: (isSo: boolean) => (areAnswersLost = isSo),
    /** A claim brings nothing; then some news end the wait. */
    begin: async () => {
      wakeUp.ring();
      await rest.begin(id, () => Promise.resolve());
    },
    /** A claim brings something, at a moment at which so much does that notifications should end. */
    endBusy: async () => {
      news.note(1_000);
      await rest.end(id);
    },
    passTime: () => (now += 60_000),
    isAsleep: async () => {
      const row = await db
        .selectFrom('dispatcher')
        .select('is_sleeping')
        .where('dispatcher_id', '=', id)
        .executeTakeFirstOrThrow();
      return row.is_sleeping;
    },
  };
}

test('an answer that is lost as it wakes leaves it awake in its own eyes too, and able to fall asleep again', async () => {
  const { rest, loseAnswers, begin, endBusy, passTime, isAsleep } = await rested();
  await begin();
  expect([rest.isSleeping, await isAsleep()]).toEqual([true, true]);
  loseAnswers(true);
  await expect(endBusy()).rejects.toThrow('terminated');
  expect([rest.isSleeping, await isAsleep()]).toEqual([false, false]);
  loseAnswers(false);
  passTime();
  await begin();
  expect([rest.isSleeping, await isAsleep()]).toEqual([true, true]);
});

test('what the database was not told is told again: enqueues would notify on', async () => {
  const { proxy, begin, endBusy, isAsleep } = await rested();
  await begin();
  await proxy.refuse();
  proxy.cut();
  await expect(endBusy()).rejects.toThrow();
  expect(await isAsleep()).toBe(true);
  await proxy.accept();
  await endBusy();
  expect(await isAsleep()).toBe(false);
});
