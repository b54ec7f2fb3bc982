import { table } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { beforeEach, expect, test, vi } from 'vitest';
import { registerDispatcher } from '../src/dispatcher-lease.ts';
import { enqueueEffect } from '../src/enqueue-effect.ts';
import { dispatcherRequeueStale } from '../src/requeue-stale.ts';
import { claimSome, emptyQueue, fillQueue, openClaims } from './fill-queue.ts';

const database = useTestDatabase();
beforeEach(() => emptyQueue(database.db));

const register = (leaseMs: number) =>
  registerDispatcher(database.db, { host: 'h', pid: 1, slots: 8, leaseMs });

const age = (name: 'effect_claim' | 'dispatcher') =>
  sql`update ${table(name)} set ${sql.id(name === 'dispatcher' ? 'heartbeat_at' : 'claimed_at')} = now() - interval '1 hour'`.execute(
    database.db,
  );

test('claims of a dispatcher of which no trace is left come back by their age', async () => {
  const ids = await fillQueue(database.db, 'a', 1);
  await claimSome(database.db, 'a', 1, await register(3_600_000));
  await database.db.deleteFrom('dispatcher').execute();
  await age('effect_claim');
  // Others that live change nothing about it.
  await register(3_600_000);
  expect(await dispatcherRequeueStale(database.db, { olderThanMs: 60_000 })).toBe(1);
  expect(await claimSome(database.db, 'a', 9)).toMatchObject([{ effectId: ids[0], attempt: 2 }]);
});

test('a process that starts again where one was killed does not keep the claims of the dead one alive', async () => {
  await fillQueue(database.db, 'a', 2);
  await claimSome(database.db, 'a', 1, await register(1_000));
  await age('dispatcher');
  const again = await register(1_000_000);
  await claimSome(database.db, 'a', 1, again);
  expect(await dispatcherRequeueStale(database.db, { olderThanMs: 3_600_000 })).toBe(1);
  expect((await database.db.selectFrom('effect_claim').select('claimant').execute())[0]).toEqual({
    claimant: again,
  });
});

test('what was cut off in the middle is loud, takes back nothing by halves, and the next call takes back all', async () => {
  const { db } = database;
  const dead = await register(1_000);
  await fillQueue(db, 'a', 250);
  await claimSome(db, 'a', 250, dead);
  await age('dispatcher');
  await sql`create function public.stand_still() returns trigger language plpgsql as
    $$ begin perform pg_advisory_xact_lock_shared(4711); return new; end $$`.execute(db);
  await sql`create trigger stand_still before update on ${table('effect_queue')}
    for each row execute function public.stand_still()`.execute(db);
  const gate = await db.startTransaction().execute();
  await sql`select pg_advisory_xact_lock(4711)`.execute(gate);
  const cut = dispatcherRequeueStale(db, { olderThanMs: 0 });
  cut.catch(() => undefined);
  await vi.waitFor(
    async () => {
      const { rows } = await sql`select pg_terminate_backend(pid) from pg_locks
        where locktype = 'advisory' and objid = 4711 and not granted
          and database = (select oid from pg_database where datname = current_database())`.execute(db);
      expect(rows).toHaveLength(1);
    },
    { timeout: 20_000, interval: 20 },
  );
  await expect(cut).rejects.toMatchObject({ code: '57P01' });
  await gate.rollback().execute();
  await sql`drop trigger stand_still on ${table('effect_queue')}`.execute(db);
  expect(await openClaims(db)).toEqual({ a: 250 });
  // Its session may be a moment from its end, and with it its locks.
  let taken = 0;
  await vi.waitFor(
    async () => {
      taken += await dispatcherRequeueStale(db, { olderThanMs: 0 });
      expect(taken).toBe(250);
    },
    { timeout: 20_000, interval: 20 },
  );
  expect(await openClaims(db)).toEqual({});
  const again = await claimSome(db, 'a', 300);
  expect(again.map(({ attempt }) => attempt)).toEqual(Array(250).fill(2));
});

test('a stale effect keeps its dedup key: a twin is a duplicate of it, and the others of its batch come back with it', async () => {
  const { db } = database;
  const key = { repoId: 'a', payload: 'first', dedupKey: 'k' };
  const first = await enqueueEffect(db, key);
  await fillQueue(db, 'a', 20);
  await claimSome(db, 'a', 21, 'w');
  await age('effect_claim');
  expect(await enqueueEffect(db, { ...key, payload: 'twin' })).toBe(first);
  expect(await dispatcherRequeueStale(db, { olderThanMs: 1_000 })).toBe(21);
  expect(await enqueueEffect(db, { ...key, payload: 'twin' })).toBe(first);
  const again = await claimSome(db, 'a', 100);
  expect(again).toHaveLength(21);
  expect(again[0]).toMatchObject({ effectId: first, payload: 'first', attempt: 2 });
});
