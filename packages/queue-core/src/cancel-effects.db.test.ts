import { useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { cancelEffects } from './cancel-effects.ts';
import { claimEffects } from './claim-effects.ts';
import { completeEffect } from './complete-effect.ts';
import type { EffectId } from './effect-id.ts';
import { enqueueEffects } from './enqueue-effects.ts';

const database = useTestDatabase();

test('cancels what waits, in its own repo only, and frees the dedup key', async () => {
  const all = await enqueueEffects(database.db, [
    { repoId: 'c/1', payload: 'claimed', priority: 1 },
    { repoId: 'c/1', payload: 'enqueued', dedupKey: 'k', retainDedupKey: true },
    { repoId: 'c/1', payload: 'scheduled', delayMs: 3_600_000 },
    { repoId: 'c/2', payload: 'another repo' },
  ]);
  const [running] = await claimEffects(database.db, { repoId: 'c/1', claimedBy: 'w', limit: 1 });
  const effectIds = [...all.map(({ effectId }) => effectId), 999_999_999n as EffectId];
  expect(
    await cancelEffects(database.db, { repoId: 'c/1', effectIds, reason: 'not "needed" any more' }),
  ).toEqual([all[1]!.effectId, all[2]!.effectId]);
  const rows = await database.db
    .selectFrom('effect')
    .select(['payload', 'state', 'reason', 'attempts', 'claimant'])
    .where('repo_id', 'in', ['c/1', 'c/2'])
    .orderBy('effect_id')
    .execute();
  expect(rows).toEqual([
    { payload: 'claimed', state: 'claimed', reason: null, attempts: 1, claimant: 'w' },
    { payload: 'enqueued', state: 'cancelled', reason: 'not "needed" any more', attempts: 0, claimant: null },
    {
      payload: 'scheduled',
      state: 'cancelled',
      reason: 'not "needed" any more',
      attempts: 0,
      claimant: null,
    },
    { payload: 'another repo', state: 'enqueued', reason: null, attempts: 0, claimant: null },
  ]);
  expect(
    await database.db.selectFrom('effect_dedup').selectAll().where('repo_id', '=', 'c/1').execute(),
  ).toEqual([]);

  await completeEffect(database.db, running!);
  const again = { repoId: 'c/1', effectIds, reason: 'once more' };
  expect(await cancelEffects(database.db, again)).toEqual([]);
});

test('an effect is either cancelled or claimed, never both', async () => {
  const repoId = 'c/3';
  const all = await enqueueEffects(
    database.db,
    Array.from({ length: 100 }, (_, n) => ({ repoId, payload: `${n}` })),
  );
  const effectIds = all.map(({ effectId }) => effectId);
  const [cancelled, ...claimed] = await Promise.all([
    Promise.all(
      Array.from({ length: 10 }, (_, n) =>
        cancelEffects(database.db, {
          repoId,
          effectIds: effectIds.slice(n * 10, n * 10 + 10),
          reason: 'race',
        }),
      ),
    ),
    ...Array.from({ length: 10 }, () => claimEffects(database.db, { repoId, claimedBy: 'w', limit: 5 })),
  ]);
  const ids = [...cancelled.flat(), ...claimed.flat().map(({ effectId }) => effectId)];
  expect(new Set(ids).size).toBe(ids.length);
  const open = await database.db
    .selectFrom('effect_claim')
    .select('effect_id')
    .where('repo_id', '=', repoId)
    .execute();
  expect(new Set(open.map((row) => row.effect_id))).toEqual(
    new Set(claimed.flat().map(({ effectId }) => effectId)),
  );
});

test.each([
  ['repoId', { repoId: '' }],
  ['reason', { reason: '' }],
  ['effectIds', { effectIds: Array.from({ length: 10_001 }, () => 1n as EffectId) }],
  ['effectId', { effectIds: [-1n as EffectId] }],
])('a wrong %s is refused by name', async (field, wrong) => {
  const request = { repoId: 'c/4', effectIds: [1n as EffectId], reason: 'why', ...wrong };
  await expect(cancelEffects(database.db, request)).rejects.toMatchObject({
    code: 'invalid_argument',
    message: expect.stringMatching(new RegExp(`^${field}: expected `)),
  });
});
