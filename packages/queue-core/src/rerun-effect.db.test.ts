import { useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { claimEffects } from './claim-effects.ts';
import { completeEffect } from './complete-effect.ts';
import { enqueueEffect } from './enqueue-effect.ts';
import type { EffectId } from './effect-id.ts';
import { rerunEffect } from './rerun-effect.ts';

const database = useTestDatabase();
const PUSH = 'c'.repeat(40);

async function finished(repoId: string): Promise<EffectId> {
  const id = await enqueueEffect(database.db, {
    repoId,
    name: 'test',
    payload: 'order',
    priority: 3,
    maxAttempts: 7,
    dedupKey: 'k',
    retainDedupKey: true,
    concurrencyGroup: 'g',
    pushId: PUSH,
  });
  const [claim] = await claimEffects(database.db, { repoId, claimedBy: 'w', limit: 1 });
  await completeEffect(database.db, claim!, { outcome: 'fail' });
  return id;
}

test('a finished effect waits again as it was, without its key, and its history stays', async () => {
  const first = await finished('rerun/a');
  const second = await rerunEffect(database.db, { repoId: 'rerun/a', effectId: first });
  const rows = await database.db
    .selectFrom('effect')
    .select([
      'effect_id',
      'state',
      'name',
      'payload',
      'priority',
      'max_attempts',
      'dedup_key',
      'concurrency_group',
      'push_id',
    ])
    .where('repo_id', '=', 'rerun/a')
    .orderBy('effect_id')
    .execute();
  const same = {
    name: 'test',
    payload: 'order',
    priority: 3,
    max_attempts: 7,
    concurrency_group: 'g',
    push_id: PUSH,
  };
  expect(rows).toEqual([
    { ...same, effect_id: first, state: 'done', dedup_key: 'k' },
    { ...same, effect_id: second, state: 'enqueued', dedup_key: null },
  ]);
});

test('another repo cannot run it, and what waits or does not exist is not run again', async () => {
  const first = await finished('rerun/b');
  const waiting = await enqueueEffect(database.db, { repoId: 'rerun/b', payload: 'waits' });
  const attempts = [
    { repoId: 'rerun/other', effectId: first },
    { repoId: 'rerun/b', effectId: waiting },
    { repoId: 'rerun/b', effectId: 9_000_000_000n as EffectId },
  ];
  for (const attempt of attempts) expect(await rerunEffect(database.db, attempt)).toBeUndefined();
  const left = await database.db
    .selectFrom('effect_queue')
    .select('payload')
    .where('repo_id', 'like', 'rerun/%')
    .execute();
  expect(left.filter(({ payload }) => payload !== 'order')).toEqual([{ payload: 'waits' }]);
});
