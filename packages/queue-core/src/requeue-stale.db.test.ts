import { type DB } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql, type Kysely } from 'kysely';
import { beforeEach, describe, expect, test } from 'vitest';
import { claimSome, emptyQueue, fillQueue, openClaims } from '../test/fill-queue.ts';
import { appendLog } from './append-log.ts';
import { dispatcherComplete } from './dispatcher-complete.ts';
import { dispatcherFail } from './dispatcher-fail.ts';
import { dispatcherHandBack } from './dispatcher-hand-back.ts';
import { heartbeat, registerDispatcher } from './dispatcher-lease.ts';
import { effectId } from './effect-id.ts';
import { readLog } from './read-log.ts';
import { dispatcherRequeueStale } from './requeue-stale.ts';

const database = useTestDatabase();
beforeEach(() => emptyQueue(database.db));

const DAY_MS = 86_400_000;

const register = (db: Kysely<DB>) =>
  registerDispatcher(db, { host: 'h1', pid: 77, slots: 8, leaseMs: 20_000 });

const age = (ms: number) => sql<Date>`clock_timestamp() - ${ms}::float8 * interval '1 millisecond'`;

async function letLeaseExpire(dispatcherId: string): Promise<void> {
  await database.db
    .updateTable('dispatcher')
    .set({ heartbeat_at: age(30_000) })
    .where('dispatcher_id', '=', dispatcherId)
    .execute();
}

const ageClaims = (ms: number) =>
  database.db
    .updateTable('effect_claim')
    .set({ claimed_at: age(ms) })
    .execute();

const dispatchers = async () =>
  (await database.db.selectFrom('dispatcher').select('dispatcher_id').execute()).map(
    (row) => row.dispatcher_id,
  );

describe('a registered dispatcher', () => {
  test('keeps claims of any age while it beats', async () => {
    const alive = await register(database.db);
    await fillQueue(database.db, 'a', 2);
    await claimSome(database.db, 'a', 2, alive);
    await ageClaims(7 * DAY_MS);
    expect(await dispatcherRequeueStale(database.db, { olderThanMs: 0 })).toBe(0);
    expect(await openClaims(database.db)).toEqual({ a: 2 });
    expect(await heartbeat(database.db, alive)).toBe('alive');
  });

  test('that is silent for longer than its lease loses its claims, however young, and its registration', async () => {
    const [dead, alive] = [await register(database.db), await register(database.db)];
    const [first, second] = await fillQueue(database.db, 'a', 3);
    await claimSome(database.db, 'a', 2, dead);
    await claimSome(database.db, 'a', 1, alive);
    await letLeaseExpire(dead);
    expect(await dispatcherRequeueStale(database.db, { olderThanMs: DAY_MS })).toBe(2);
    expect(await openClaims(database.db)).toEqual({ a: 1 });
    expect(await dispatchers()).toEqual([alive]);
    expect(await heartbeat(database.db, dead)).toBe('declared_dead');
    const rows = await database.db
      .selectFrom('effect_queue')
      .select(['effect_id', 'attempts', 'run_at', 'last_error'])
      .where('attempts', '>', 0)
      .orderBy('effect_id')
      .execute();
    const lost = 'its dispatcher was lost: process 77 on h1 stopped beating';
    expect(rows).toEqual([
      { effect_id: first, attempts: 1, run_at: null, last_error: lost },
      { effect_id: second, attempts: 1, run_at: null, last_error: lost },
    ]);
    expect((await claimSome(database.db, 'a', 9, alive)).map((effect) => effect.attempt)).toEqual([2, 2]);
  });

  test('keeps everything while one of its claims is being finished, and loses everything afterwards', async () => {
    const dead = await register(database.db);
    await fillQueue(database.db, 'a', 3);
    const [first] = await claimSome(database.db, 'a', 3, dead);
    await letLeaseExpire(dead);
    await database.db.transaction().execute(async (finishing) => {
      expect(await dispatcherComplete(finishing, first!)).toBe('completed');
      expect(await dispatcherRequeueStale(database.db, { olderThanMs: DAY_MS })).toBe(0);
      expect(await dispatchers()).toEqual([dead]);
    });
    expect(await dispatcherRequeueStale(database.db, { olderThanMs: DAY_MS })).toBe(2);
    expect(await dispatchers()).toEqual([]);
  });

  test('that beats at this very moment is passed over, not waited for', async () => {
    const late = await register(database.db);
    await fillQueue(database.db, 'a', 1);
    await claimSome(database.db, 'a', 1, late);
    await letLeaseExpire(late);
    await database.db.transaction().execute(async (beating) => {
      expect(await heartbeat(beating, late)).toBe('alive');
      expect(await dispatcherRequeueStale(database.db, { olderThanMs: DAY_MS })).toBe(0);
    });
    expect(await dispatcherRequeueStale(database.db, { olderThanMs: DAY_MS })).toBe(0);
    expect(await openClaims(database.db)).toEqual({ a: 1 });
  });

  test('many at once: each is dealt with, those that died in the same microsecond too', async () => {
    await fillQueue(database.db, 'a', 6);
    for (let index = 0; index < 6; index += 1) {
      await claimSome(database.db, 'a', 1, await register(database.db));
    }
    const before = await sql<{ at: string }>`select (now() - interval '1 hour')::text as at`.execute(
      database.db,
    );
    await database.db.updateTable('dispatcher').set({ heartbeat_at: before.rows[0]!.at }).execute();
    const counts = await Promise.all(
      [1, 2, 3].map(() => dispatcherRequeueStale(database.db, { olderThanMs: DAY_MS })),
    );
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(6);
    expect(await dispatchers()).toEqual([]);
    expect(await openClaims(database.db)).toEqual({});
  });
});

describe('a claimant without a registration', () => {
  test('loses a claim by its age alone, whatever else happened to the effect', async () => {
    const ids = await fillQueue(database.db, 'a', 2);
    await claimSome(database.db, 'a', 1, 'somebody');
    await ageClaims(5_000);
    await claimSome(database.db, 'a', 1, 'somebody');
    await database.db
      .updateTable('effect_queue')
      .set({ enqueued_at: sql<Date>`now()` })
      .execute();
    expect(await dispatcherRequeueStale(database.db, { olderThanMs: 60_000 })).toBe(0);
    expect(await dispatcherRequeueStale(database.db, { olderThanMs: 4_000 })).toBe(1);
    const [again] = await claimSome(database.db, 'a', 9);
    expect(again).toMatchObject({ effectId: ids[0], attempt: 2 });
  });

  test('more claims than fit in one batch', async () => {
    await fillQueue(database.db, 'a', 2_500);
    await claimSome(database.db, 'a', 2_500, 'w');
    await ageClaims(5_000);
    expect(await dispatcherRequeueStale(database.db, { olderThanMs: 1_000 })).toBe(2_500);
    expect(await openClaims(database.db)).toEqual({});
  });

  test('a claim whose effect is gone is removed all the same: it would hold room for ever', async () => {
    await fillQueue(database.db, 'a', 1);
    await claimSome(database.db, 'a', 1, 'w');
    await database.db.deleteFrom('effect_queue').execute();
    await ageClaims(5_000);
    expect(await dispatcherRequeueStale(database.db, { olderThanMs: 1_000 })).toBe(1);
    expect(await openClaims(database.db)).toEqual({});
  });
});

test('an effect that kills each of its dispatchers is dead after its last attempt, with the reason', async () => {
  const [poison] = await fillQueue(database.db, 'a', 1, { maxAttempts: 3 });
  for (let attempt = 1; attempt <= 3; attempt += 1) {
    const dispatcher = await register(database.db);
    expect(await claimSome(database.db, 'a', 1, dispatcher)).toMatchObject([{ attempt }]);
    await letLeaseExpire(dispatcher);
    expect(await dispatcherRequeueStale(database.db, { olderThanMs: DAY_MS })).toBe(1);
  }
  expect(await claimSome(database.db, 'a', 1)).toEqual([]);
  const [row] = await database.db
    .selectFrom('effect')
    .select(['effect_id', 'state', 'attempts', 'reason'])
    .execute();
  expect(row).toEqual({
    effect_id: poison,
    state: 'dead',
    attempts: 3,
    reason:
      'attempts used up: in the last one, number 3, its dispatcher was lost: process 77 on h1 stopped beating',
  });
});

test('a zombie that comes back can neither complete, fail, hand back nor log; its successor is untouched', async () => {
  const [id] = await fillQueue(database.db, 'a', 1);
  const [zombie] = await claimSome(database.db, 'a', 1, 'same-name');
  await ageClaims(5_000);
  await dispatcherRequeueStale(database.db, { olderThanMs: 1_000 });
  const [successor] = await claimSome(database.db, 'a', 1, 'same-name');
  const chunks = [{ seq: 1, bytes: Buffer.from('boo') }];
  expect(await dispatcherComplete(database.db, zombie!)).toBe('stale');
  expect(await dispatcherFail(database.db, { claim: zombie!, error: 'late', retryInMs: 0 })).toBe('stale');
  expect(
    await dispatcherFail(database.db, { claim: zombie!, error: 'late', retryInMs: 0, isPoison: true }),
  ).toBe('stale');
  expect(await dispatcherHandBack(database.db, [zombie!])).toEqual([]);
  expect(await appendLog(database.db, zombie!, chunks)).toBe('stale');
  // Not even with the right claim number.
  const forged = { ...zombie!, claimNumber: successor!.claimNumber };
  expect(await dispatcherHandBack(database.db, [forged])).toEqual([]);
  expect(await appendLog(database.db, forged, chunks)).toBe('stale');
  expect(await readLog(database.db, { effectId: effectId(id!) })).toEqual([]);
  expect(await appendLog(database.db, successor!, chunks)).toBe('stored');
  expect(await dispatcherComplete(database.db, successor!)).toBe('completed');
});
