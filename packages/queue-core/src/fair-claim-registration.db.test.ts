import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { beforeEach, expect, test } from 'vitest';
import { claimSome, emptyQueue, fillQueue, openClaims } from '../test/fill-queue.ts';
import { heartbeat, registerDispatcher, unregisterDispatcher } from './dispatcher-lease.ts';
import { dispatcherRequeueStale } from './requeue-stale.ts';

const database = useTestDatabase();
beforeEach(() => emptyQueue(database.db));

const DAY_MS = 86_400_000;
const register = () => registerDispatcher(database.db, { host: 'h1', pid: 77, slots: 8, leaseMs: 3_600_000 });
const requeueStale = (db = database.db) => dispatcherRequeueStale(db, { olderThanMs: DAY_MS });

const letLeaseExpire = (dispatcherId: string) =>
  database.db
    .updateTable('dispatcher')
    .set({ heartbeat_at: new Date(0) })
    .where('dispatcher_id', '=', dispatcherId)
    .execute();

async function waitingForLocks(): Promise<number> {
  const { rows } = await sql<{ n: number }>`
    select count(*)::int as n from pg_locks l join pg_database d on d.oid = l.database
     where not l.granted and l.locktype = 'advisory' and d.datname = current_database()`.execute(database.db);
  return rows[0]!.n;
}

test('a dispatcher that was declared dead claims nothing more', async () => {
  const dead = await register();
  await fillQueue(database.db, 'a', 2);
  expect(await claimSome(database.db, 'a', 1, dead)).toHaveLength(1);
  await letLeaseExpire(dead);
  expect(await requeueStale()).toBe(1);
  await expect(claimSome(database.db, 'a', 1, dead)).rejects.toMatchObject({ code: 'dispatcher_gone' });
  expect(await openClaims(database.db)).toEqual({});
  expect(await claimSome(database.db, 'a', 9, await register())).toHaveLength(2);
});

test('a claim that commits late is taken back with the others, not left to nobody', async () => {
  const late = await register();
  await fillQueue(database.db, 'a', 1);
  await letLeaseExpire(late);
  await database.db.transaction().execute(async (claiming) => {
    expect(await claimSome(claiming, 'a', 1, late)).toHaveLength(1);
    // Not yet: its claim is about to commit, and would outlive the registration.
    expect(await requeueStale()).toBe(0);
  });
  expect(await requeueStale()).toBe(1);
  expect(await openClaims(database.db)).toEqual({});
  expect(await heartbeat(database.db, late)).toBe('declared_dead');
});

test('while its registration is being ended, a dispatcher claims nothing; if that is undone, it goes on', async () => {
  const dispatcher = await register();
  await fillQueue(database.db, 'a', 1);
  await letLeaseExpire(dispatcher);
  const burying = await database.db.startTransaction().execute();
  try {
    await requeueStale(burying);
    await expect(claimSome(database.db, 'a', 1, dispatcher)).rejects.toMatchObject({
      code: 'dispatcher_gone',
    });
  } finally {
    await burying.rollback().execute();
  }
  expect(await claimSome(database.db, 'a', 1, dispatcher)).toHaveLength(1);
});

test('unregistering waits for a claim of its own that is under way, and gives it back', async () => {
  const dispatcher = await register();
  await fillQueue(database.db, 'a', 1);
  let gone: Promise<void> | undefined;
  await database.db.transaction().execute(async (claiming) => {
    expect(await claimSome(claiming, 'a', 1, dispatcher)).toHaveLength(1);
    gone = unregisterDispatcher(database.db, dispatcher);
    await expect.poll(waitingForLocks, { timeout: 20_000 }).toBe(1);
  });
  await gone;
  expect(await openClaims(database.db)).toEqual({});
});

test('a claimant that is no dispatcher needs no registration', async () => {
  await fillQueue(database.db, 'a', 1);
  expect(await claimSome(database.db, 'a', 1, 'somebody')).toHaveLength(1);
});
