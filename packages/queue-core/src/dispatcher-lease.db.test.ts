import { useTestDatabase } from '@sluice/testkit';
import { beforeEach, expect, test } from 'vitest';
import { claimSome, emptyQueue, fillQueue, openClaims } from '../test/fill-queue.ts';
import { heartbeat, registerDispatcher, setSleeping, unregisterDispatcher } from './dispatcher-lease.ts';

const database = useTestDatabase();
beforeEach(() => emptyQueue(database.db));

const NEW = { host: 'h1', pid: 77, slots: 8, leaseMs: 20_000 };
const row = (id: string) =>
  database.db.selectFrom('dispatcher').selectAll().where('dispatcher_id', '=', id).executeTakeFirst();

test('registers under a new id, beats, sleeps and wakes', async () => {
  const id = await registerDispatcher(database.db, NEW);
  expect(await registerDispatcher(database.db, NEW)).not.toBe(id);
  const before = await row(id);
  expect(before).toMatchObject({ host: 'h1', pid: 77, slots: 8, lease_ms: 20_000, is_sleeping: false });
  await database.db
    .updateTable('dispatcher')
    .set({ heartbeat_at: new Date(0) })
    .execute();
  expect(await heartbeat(database.db, id)).toBe('alive');
  expect((await row(id))!.heartbeat_at.getTime()).toBeGreaterThanOrEqual(before!.heartbeat_at.getTime());
  await setSleeping(database.db, id, true);
  expect((await row(id))!.is_sleeping).toBe(true);
  await setSleeping(database.db, id, false);
  expect((await row(id))!.is_sleeping).toBe(false);
});

test('unregistering gives back what it still had, with no attempt spent', async () => {
  const id = await registerDispatcher(database.db, NEW);
  await fillQueue(database.db, 'a', 2);
  await claimSome(database.db, 'a', 2, id);
  await unregisterDispatcher(database.db, id);
  expect(await openClaims(database.db)).toEqual({});
  expect(await heartbeat(database.db, id)).toBe('declared_dead');
  expect((await claimSome(database.db, 'a', 2)).map((effect) => effect.attempt)).toEqual([1, 1]);
});

test('bad input is refused by name', async () => {
  await expect(heartbeat(database.db, 'nobody')).rejects.toThrow(/^dispatcherId: expected an id/);
  await expect(registerDispatcher(database.db, { ...NEW, slots: 0 })).rejects.toThrow(/^slots/);
  await expect(registerDispatcher(database.db, { ...NEW, host: '' })).rejects.toThrow(/^host/);
});
