import { table } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { beforeEach, describe, expect, test } from 'vitest';
import { appendLog } from '../src/append-log.ts';
import { claimEffects } from '../src/claim-effects.ts';
import { completeEffect } from '../src/complete-effect.ts';
import { heartbeat, registerDispatcher } from '../src/dispatcher-lease.ts';
import { findEffect } from '../src/find-effect.ts';
import { maintainPartitions } from '../src/maintain-partitions.ts';
import { queueByRepo } from '../src/queue-by-repo.ts';
import { readLog } from '../src/read-log.ts';
import { dispatcherRequeueStale } from '../src/requeue-stale.ts';
import { waitingEffects } from '../src/waiting-effects.ts';
import { claimSome, emptyQueue, fillQueue, openClaims } from './fill-queue.ts';

const database = useTestDatabase();
beforeEach(() => emptyQueue(database.db));

/** As if the server's clock had been set back by that much since the rows were written; negative: set forward. */
async function setBack(interval: string): Promise<void> {
  const columns = [
    ['effect_queue', 'enqueued_at'],
    ['effect_queue', 'run_at'],
    ['effect_claim', 'claimed_at'],
    ['dispatcher', 'heartbeat_at'],
    ['effect_log', 'logged_at'],
  ] as const;
  for (const [name, column] of columns) {
    await sql`update ${table(name)} set ${sql.id(column)} = ${sql.id(column)} + ${interval}::interval`.execute(
      database.db,
    );
  }
}

const register = (leaseMs: number) =>
  registerDispatcher(database.db, { host: 'h', pid: 1, slots: 9, leaseMs });

describe('the clock of the server is set back', () => {
  test('a dispatcher that died before keeps its claims for its lease, not until the clock is there again', async () => {
    const { db } = database;
    await fillQueue(db, 'a', 2);
    const dead = await register(60_000);
    await claimSome(db, 'a', 2, dead);
    await setBack('1 year');
    expect(await dispatcherRequeueStale(db, { olderThanMs: 0 })).toBe(0);
    expect(await openClaims(db)).toEqual({ a: 2 });
    await setBack('-61 seconds');
    expect(await dispatcherRequeueStale(db, { olderThanMs: 0 })).toBe(2);
    expect(await openClaims(db)).toEqual({});
  });

  test('one that is alive goes on', async () => {
    const { db } = database;
    await fillQueue(db, 'a', 1);
    const id = await register(60_000);
    const [claim] = await claimSome(db, 'a', 1, id);
    await setBack('1 hour');
    await dispatcherRequeueStale(db, { olderThanMs: 0 });
    expect(await heartbeat(db, id)).toBe('alive');
    expect(await dispatcherRequeueStale(db, { olderThanMs: 0 })).toBe(0);
    expect(await completeEffect(db, claim!)).toBe('completed');
  });

  test('a claim of somebody who is no dispatcher grows old from then on', async () => {
    const { db } = database;
    await fillQueue(db, 'a', 1);
    await claimEffects(db, { repoId: 'a', claimedBy: 'w', limit: 1 });
    await setBack('1 hour');
    expect(await dispatcherRequeueStale(db, { olderThanMs: 60_000 })).toBe(0);
    await setBack('-61 seconds');
    expect(await dispatcherRequeueStale(db, { olderThanMs: 60_000 })).toBe(1);
  });

  test('a row that somebody is changing is not waited for', async () => {
    const { db } = database;
    const id = await register(60_000);
    await setBack('1 hour');
    await db.transaction().execute(async (other) => {
      await heartbeat(other, id);
      expect(await dispatcherRequeueStale(db, { olderThanMs: 0 })).toBe(0);
    });
  });

  test('output that is sent again is stored once, and ages are not negative', async () => {
    const { db } = database;
    const [id] = await fillQueue(db, 'a', 2);
    const [claim] = await claimSome(db, 'a', 1);
    await setBack('1 hour');
    const chunks = [{ seq: 1, bytes: Buffer.from('x') }];
    expect(await appendLog(db, claim!, chunks)).toBe('stored');
    expect(await appendLog(db, claim!, chunks)).toBe('stored');
    expect(await readLog(db, { effectId: claim!.effectId })).toHaveLength(1);
    expect(await queueByRepo(db)).toMatchObject([{ repoId: 'a', oldestWaitingMs: 0 }]);
    expect(await completeEffect(db, claim!)).toBe('completed');
    expect(await findEffect(db, claim!.effectId)).toMatchObject({ effectId: id, state: 'done' });
  });
});

describe('the clock of the server is set forward', () => {
  test('what finishes on a day that has no partition is kept, and moves into it once it is made', async () => {
    const { db } = database;
    await maintainPartitions(db, { daysAhead: 0, retentionDays: 30 });
    await fillQueue(db, 'a', 1);
    const [claim] = await claimSome(db, 'a', 1);
    expect(await completeEffect(db, claim!)).toBe('completed');
    // Its clock was a week ahead when it finished; it is right again now, and the week passes.
    await sql`update ${table('effect_history')} set finished_at = finished_at + interval '7 days'`.execute(
      db,
    );
    expect(await findEffect(db, claim!.effectId)).toMatchObject({ state: 'done' });
    const { created, skipped } = await maintainPartitions(db, { daysAhead: 7, retentionDays: 30 });
    expect(skipped).toEqual([]);
    expect(created.filter((name) => name.startsWith('effect_history'))).toHaveLength(7);
    const { rows } = await sql`select from ${sql.id('sluice', 'effect_history_default')}`.execute(db);
    expect(rows).toEqual([]);
    expect(await findEffect(db, claim!.effectId)).toMatchObject({ state: 'done' });
  });

  test('who noticed has every lease and every age begin there, and who was dead before is found one lease later', async () => {
    const { db } = database;
    await fillQueue(db, 'a', 3);
    const id = await register(60_000);
    await claimSome(db, 'a', 2, id);
    await claimEffects(db, { repoId: 'a', claimedBy: 'w', limit: 1 });
    await setBack('-1 hour');
    let noticedAt = 0;
    const notice = (databaseMs: number) => (noticedAt = databaseMs);
    expect(await dispatcherRequeueStale(db, { olderThanMs: 60_000, agesFrom: notice })).toBe(0);
    expect(Math.abs(noticedAt - Date.now())).toBeLessThan(60_000);
    const after = (ms: number) => ({
      olderThanMs: 60_000,
      agesFrom: (databaseMs: number) => databaseMs - ms,
    });
    expect(await dispatcherRequeueStale(db, after(59_000))).toBe(0);
    expect(await dispatcherRequeueStale(db, after(61_000))).toBe(3);
    expect(await heartbeat(db, id)).toBe('declared_dead');
  });

  test('what is scheduled is due at once', async () => {
    const { db } = database;
    await fillQueue(db, 'a', 1, { runInMs: 3_600_000 });
    await setBack('-2 hours');
    expect(await claimEffects(db, { repoId: 'a', claimedBy: 'w', limit: 1 })).toHaveLength(1);
    expect(await waitingEffects(db)).toEqual([]);
  });
});
