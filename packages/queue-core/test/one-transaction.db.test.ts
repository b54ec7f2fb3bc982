import { CHANNELS } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import pg from 'pg';
import { beforeEach, expect, test, vi } from 'vitest';
import { claimEffects } from '../src/claim-effects.ts';
import { registerDispatcher, setSleeping } from '../src/dispatcher-lease.ts';
import { enqueueEffect } from '../src/enqueue-effect.ts';
import { enqueueEffects } from '../src/enqueue-effects.ts';
import { dispatcherRequeueStale } from '../src/requeue-stale.ts';
import { claimSome, emptyQueue, openClaims } from './fill-queue.ts';

const database = useTestDatabase();
beforeEach(() => emptyQueue(database.db));

/** PostgreSQL's limit for the payload of one. */
const NOTIFICATION_BYTES_MAX = 8_000;

test('3,000 effects of one transaction, and of one requeue, are announced by one small notification at most', async () => {
  const { db } = database;
  const id = await registerDispatcher(db, { host: 'h', pid: 1, slots: 1, leaseMs: 600_000 });
  await setSleeping(db, id, true);
  const listener = new pg.Client({ connectionString: database.url });
  await listener.connect();
  try {
    const heard: string[] = [];
    listener.on('notification', ({ payload = '' }) => heard.push(payload));
    await listener.query(`listen ${CHANNELS.effects}`);
    const repoId = 'r'.repeat(200);
    await db.transaction().execute(async (trx) => {
      await enqueueEffects(
        trx,
        Array.from({ length: 3_000 }, (_, n) => ({ repoId, payload: `${n}` })),
      );
    });
    expect(await claimSome(db, repoId, 3_000, 'w')).toHaveLength(3_000);
    expect(await dispatcherRequeueStale(db, { olderThanMs: 0 })).toBe(3_000);
    expect(await openClaims(db)).toEqual({});
    // Notifications come in the order of the commits.
    await enqueueEffect(db, { repoId: 'last', payload: '' });
    await vi.waitFor(() => expect(heard.at(-1)).toMatch(/ last$/), { timeout: 20_000 });
    expect(heard.length).toBeLessThanOrEqual(2);
    for (const payload of heard) expect(payload.length).toBeLessThan(NOTIFICATION_BYTES_MAX);
  } finally {
    await listener.end();
  }
});

test.each(['one by one', 'in bulk', 'both ways'])(
  'effects of one transaction run in the order in which they were enqueued, %s',
  async (how) => {
    const { db } = database;
    const effects = Array.from({ length: 50 }, (_, n) => ({ repoId: 'a', payload: `${n}` }));
    await db.transaction().execute(async (trx) => {
      const singly = how === 'in bulk' ? 0 : how === 'one by one' ? 50 : 20;
      for (const effect of effects.slice(0, singly)) await enqueueEffect(trx, effect);
      await enqueueEffects(trx, effects.slice(singly));
    });
    const order: string[] = [];
    for (;;) {
      const claimed = await claimEffects(db, { repoId: 'a', claimedBy: 'w', limit: 7 });
      if (claimed.length === 0) break;
      order.push(...claimed.map(({ payload }) => payload));
    }
    expect(order).toEqual(effects.map(({ payload }) => payload));
  },
);
