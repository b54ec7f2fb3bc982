import { useTestDatabase } from '@sluice/testkit';
import { expect, it } from 'vitest';
import { claimEffects } from './claim-effects.ts';
import { enqueueEffect } from './enqueue-effect.ts';
import { runningEffects } from './running-effects.ts';

const test = useTestDatabase();

it('lists open claims, oldest first, of one repo or of all', async () => {
  const { db } = test;
  await enqueueEffect(db, { repoId: 'acme/api', payload: 'x', name: 'build' });
  await enqueueEffect(db, { repoId: 'acme/web', payload: 'x', name: 'test' });
  await enqueueEffect(db, { repoId: 'acme/web', payload: 'x', name: 'waits' });
  const [web] = await claimEffects(db, { repoId: 'acme/web', claimedBy: 'me', limit: 1 });
  const [api] = await claimEffects(db, { repoId: 'acme/api', claimedBy: 'me', limit: 1 });
  const all = await runningEffects(db);
  expect(all).toMatchObject([
    { effectId: web!.effectId, repoId: 'acme/web', name: 'test', attempt: 1, claimant: 'me', process: null },
    { effectId: api!.effectId, claimNumber: api!.claimNumber },
  ]);
  expect(all[0]?.claimedAt).toBeInstanceOf(Date);
  expect(await runningEffects(db, { repoId: 'acme/api' })).toHaveLength(1);
  expect(await runningEffects(db, { limit: 1 })).toHaveLength(1);
  await expect(runningEffects(db, { limit: 0 })).rejects.toThrow(/limit/);
});

it('says where a dispatcher that runs one is', async () => {
  const { db } = test;
  const where = { host: 'build-7', pid: 4711 };
  const { dispatcher_id: claimedBy } = await db
    .insertInto('dispatcher')
    .values({ ...where, slots: 1, lease_ms: 60_000 })
    .returning('dispatcher_id')
    .executeTakeFirstOrThrow();
  await enqueueEffect(db, { repoId: 'acme/run', payload: 'x', name: 'build' });
  await claimEffects(db, { repoId: 'acme/run', claimedBy, limit: 1 });
  expect(await runningEffects(db, { repoId: 'acme/run' })).toMatchObject([
    { claimant: claimedBy, process: where },
  ]);
});
