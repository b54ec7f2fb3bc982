import { useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { claimEffects } from './claim-effects.ts';
import type { EffectId } from './effect-id.ts';
import { enqueueEffects } from './enqueue-effects.ts';
import { finishClaims, finishStatement, type Finish } from './finish-claims.ts';

const database = useTestDatabase();

test('a mixed batch settles each dedup key by how its effect ended', async () => {
  const repoId = 'f/1';
  const key = (dedupKey: string, retainDedupKey: boolean) => ({
    repoId,
    payload: 'x',
    dedupKey,
    retainDedupKey,
  });
  await enqueueEffects(database.db, [
    key('done', false),
    key('done retained', true),
    key('dead', false),
    key('dead retained', true),
    { repoId, payload: 'no key' },
    key('still claimed', true),
  ]);
  const claims = await claimEffects(database.db, { repoId, claimedBy: 'w', limit: 10 });
  const finishes = claims
    .slice(0, 5)
    .map((claim, n): Finish =>
      n === 2 || n === 3
        ? { claim, state: 'dead', reason: 'poison' }
        : { claim, state: 'done', outcome: 'pass' },
    );
  expect(await finishClaims(database.db, finishes)).toHaveLength(5);
  const keys = await database.db
    .selectFrom('effect_dedup')
    .select(['dedup_key', 'effect_id', 'done_at'])
    .where('repo_id', '=', repoId)
    .orderBy('dedup_key')
    .execute();
  expect(keys).toEqual([
    { dedup_key: 'done retained', effect_id: claims[1]!.effectId, done_at: expect.any(Date) },
    { dedup_key: 'still claimed', effect_id: claims[5]!.effectId, done_at: null },
  ]);
  const states = await database.db
    .selectFrom('effect_history')
    .select(['state', 'outcome', 'reason'])
    .where('repo_id', '=', repoId)
    .orderBy('effect_id')
    .execute();
  expect(states.map((row) => row.state)).toEqual(['done', 'done', 'dead', 'dead', 'done']);
  expect(states[2]).toEqual({ state: 'dead', outcome: null, reason: 'poison' });
});

test('the statement does not grow with the number of claims', () => {
  const finishes = (count: number) =>
    Array.from({ length: count }, (_, n): Finish => {
      const claim = {
        repoId: 'r',
        effectId: BigInt(n + 1) as EffectId,
        claimNumber: BigInt(n + 1),
        attempt: 1,
        claimant: 'w',
      };
      return { claim, state: 'done', outcome: 'pass' };
    });
  const one = finishStatement(finishes(1)).compile(database.db);
  expect(finishStatement(finishes(5000)).compile(database.db).sql).toBe(one.sql);
  expect(one.parameters).toEqual(['{"1":{"fence":["1","r",1,"w"],"state":"done","outcome":"pass"}}', ['1']]);
});
