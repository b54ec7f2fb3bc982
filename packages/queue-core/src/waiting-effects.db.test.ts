import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { beforeEach, expect, test } from 'vitest';
import { claimSome, emptyQueue, fillQueue } from '../test/fill-queue.ts';
import { rowsTouched } from '../test/rows-touched.ts';
import { dispatcherFail } from './dispatcher-fail.ts';
import { registerDispatcher } from './dispatcher-lease.ts';
import { effectId } from './effect-id.ts';
import { findEffect } from './find-effect.ts';
import { finishClaims } from './finish-claims.ts';
import { waitingEffects, waitingStatement } from './waiting-effects.ts';

const database = useTestDatabase();
beforeEach(() => emptyQueue(database.db));

const startDispatcher = () =>
  registerDispatcher(database.db, { host: 'h', pid: 1, slots: 1, leaseMs: 3_600_000 });

const reasons = async (request: Parameters<typeof waitingEffects>[1] = {}) =>
  (await waitingEffects(database.db, request)).map((effect) => effect.waitsFor);

test('in the order of claims: what is next, and how many are ahead of the rest', async () => {
  await startDispatcher();
  const [first, second] = await fillQueue(database.db, 'a', 2);
  const [urgent] = await fillQueue(database.db, 'a', 1, { priority: 5 });
  await fillQueue(database.db, 'b', 1);
  const listed = await waitingEffects(database.db, { repoId: 'a' });
  expect(listed.map(({ effectId: id, ahead, state, waitsFor }) => ({ id, ahead, state, waitsFor }))).toEqual([
    { id: urgent, ahead: 0, state: 'enqueued', waitsFor: { kind: 'next' } },
    { id: first, ahead: 1, state: 'enqueued', waitsFor: { kind: 'behind', ahead: 1 } },
    { id: second, ahead: 2, state: 'enqueued', waitsFor: { kind: 'behind', ahead: 2 } },
  ]);
  expect((await waitingEffects(database.db)).map((effect) => effect.repoId)).toEqual(['a', 'a', 'a', 'b']);
  expect(await waitingEffects(database.db, { limit: 2 })).toHaveLength(2);
  // Asked for alone, it is as far behind as in the list.
  expect((await findEffect(database.db, effectId(second!)))!.waitsFor).toEqual({ kind: 'behind', ahead: 2 });
});

test('claimed effects are not listed, nor counted as ahead', async () => {
  await startDispatcher();
  await fillQueue(database.db, 'a', 3);
  await claimSome(database.db, 'a', 1);
  expect(await reasons()).toEqual([{ kind: 'next' }, { kind: 'behind', ahead: 1 }]);
});

test('a cap of the repo, the default cap, the global cap', async () => {
  await startDispatcher();
  await fillQueue(database.db, 'own', 2);
  await fillQueue(database.db, 'plain', 2);
  await database.db.insertInto('repo').values({ repo_id: 'own', cap: 1 }).execute();
  await claimSome(database.db, 'own', 1);
  await claimSome(database.db, 'plain', 1);
  expect(await reasons()).toEqual([{ kind: 'repo_at_cap', cap: 1, running: 1 }, { kind: 'next' }]);
  expect(await reasons({ repoId: 'plain', defaultCap: 1 })).toEqual([
    { kind: 'repo_at_cap', cap: 1, running: 1 },
  ]);
  await database.db.updateTable('queue_limit').set({ global_cap: 2 }).execute();
  expect(await reasons({ repoId: 'plain' })).toEqual([{ kind: 'global_cap', cap: 2, running: 2 }]);
});

test('a pause, a missing dispatcher', async () => {
  await fillQueue(database.db, 'a', 1);
  expect(await reasons()).toEqual([{ kind: 'no_dispatcher' }]);
  await startDispatcher();
  await database.db
    .updateTable('dispatcher')
    .set({ heartbeat_at: new Date(0) })
    .execute();
  expect(await reasons()).toEqual([{ kind: 'no_dispatcher' }]);
  const since = new Date('2026-01-01T00:00:00Z');
  await database.db.insertInto('repo').values({ repo_id: 'a', paused_at: since }).execute();
  expect(await reasons()).toEqual([{ kind: 'repo_paused', since }]);
});

test('a time that was asked for, a retry', async () => {
  await startDispatcher();
  await fillQueue(database.db, 'a', 1);
  const [claim] = await claimSome(database.db, 'a', 1);
  await dispatcherFail(database.db, { claim: claim!, error: 'no sandbox', retryInMs: 60_000 });
  await fillQueue(database.db, 'a', 1, { runInMs: 3_600_000 });
  const dates = await database.db.selectFrom('effect_queue').select('run_at').orderBy('run_at').execute();
  expect(await reasons({ repoId: 'a' })).toEqual([
    { kind: 'retry', at: dates[0]!.run_at, attemptsSpent: 1, lastError: 'no sandbox' },
    { kind: 'scheduled', until: dates[1]!.run_at },
  ]);
  expect(await findEffect(database.db, claim!.effectId)).toMatchObject({
    state: 'scheduled',
    attempts: 1,
    reason: 'no sandbox',
    waitsFor: { kind: 'retry' },
  });
});

test('an effect is found in every state, and waits for nothing when it runs or is finished', async () => {
  const [id] = await fillQueue(database.db, 'a', 1);
  expect(await findEffect(database.db, effectId(id!))).toMatchObject({
    state: 'enqueued',
    claimNumber: null,
    waitsFor: { kind: 'no_dispatcher' },
  });
  const [claim] = await claimSome(database.db, 'a', 1);
  expect(await findEffect(database.db, effectId(id!))).toMatchObject({
    state: 'claimed',
    attempts: 1,
    claimNumber: claim!.claimNumber,
    claimant: 'd1',
    waitsFor: null,
  });
  await finishClaims(database.db, [
    { claim: claim!, state: 'done', outcome: 'fail', resultRef: 'refs/meta/x' },
  ]);
  const found = await findEffect(database.db, effectId(id!));
  expect(found).toMatchObject({ state: 'done', outcome: 'fail', resultRef: 'refs/meta/x', waitsFor: null });
  expect(found!.finishedAt).toBeInstanceOf(Date);
  expect(await findEffect(database.db, effectId(999_999_999n))).toBeUndefined();
});

test('an effect asked for alone far down a backlog is counted to a bound', async () => {
  await startDispatcher();
  const ids = await fillQueue(database.db, 'a', 10_500);
  expect((await findEffect(database.db, effectId(ids.at(-1)!)))!.waitsFor).toEqual({
    kind: 'behind',
    ahead: 10_000,
  });
});

test('a list costs what it lists, whatever waits behind it', async () => {
  await fillQueue(database.db, 'a', 30_000);
  await fillQueue(database.db, 'a', 1_000, { runInMs: 60_000 });
  await sql`analyze sluice.effect_queue`.execute(database.db);
  for (const request of [{ limit: 10 }, { limit: 10, repoId: 'a' }]) {
    const { rows } = await rowsTouched(database.db, waitingStatement(request));
    expect(rows).toBeLessThan(500);
  }
});
