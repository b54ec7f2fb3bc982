import { useTestDatabase } from '@sluice/testkit';
import { beforeEach, expect, test } from 'vitest';
import { claimSome, emptyQueue, fillQueue } from '../test/fill-queue.ts';
import { rowsTouched } from '../test/rows-touched.ts';
import { promoteDue, promoteStatement } from './promote-due.ts';

const database = useTestDatabase();
beforeEach(() => emptyQueue(database.db));

test('lets those wait whose time has come, the earliest first, up to the limit', async () => {
  const [second] = await fillQueue(database.db, 'b', 1, { runInMs: -1_000 });
  const [first] = await fillQueue(database.db, 'a', 1, { runInMs: -2_000 });
  await fillQueue(database.db, 'c', 1, { runInMs: 3_600_000 });
  expect(await promoteDue(database.db, { limit: 1 })).toEqual({
    promoted: [{ repoId: 'a', effectId: first }],
    nextDueInMs: 0,
  });
  const rest = await promoteDue(database.db, { limit: 10 });
  expect(rest.promoted).toEqual([{ repoId: 'b', effectId: second }]);
  expect(rest.nextDueInMs).toBeGreaterThan(3_000_000);
  expect(rest.nextDueInMs).toBeLessThanOrEqual(3_600_000);
  expect(await claimSome(database.db, 'b', 9)).toHaveLength(1);
  expect(await claimSome(database.db, 'c', 9)).toHaveLength(0);
});

test('nothing scheduled: nothing to wait for', async () => {
  await fillQueue(database.db, 'a', 1);
  expect(await promoteDue(database.db, { limit: 10 })).toEqual({ promoted: [], nextDueInMs: null });
});

test('several at once share the work and wait for nobody', async () => {
  await fillQueue(database.db, 'a', 300, { runInMs: -1_000 });
  await database.db.transaction().execute(async (slow) => {
    expect((await promoteDue(slow, { limit: 100 })).promoted).toHaveLength(100);
    const others = await Promise.all([1, 2, 3].map(() => promoteDue(database.db, { limit: 100 })));
    expect(others.flatMap((other) => other.promoted)).toHaveLength(200);
  });
  expect((await promoteDue(database.db, { limit: 100 })).promoted).toEqual([]);
});

test('effects that are not due, or not scheduled, are not read', async () => {
  await fillQueue(database.db, 'a', 20_000);
  await fillQueue(database.db, 'a', 20_000, { runInMs: 3_600_000 });
  await fillQueue(database.db, 'a', 5, { runInMs: -1_000 });
  const { rows, readWhole } = await rowsTouched(database.db, promoteStatement(100));
  expect(readWhole).not.toHaveProperty('effect_queue');
  expect(rows).toBeLessThan(100);
});
