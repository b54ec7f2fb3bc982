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
  expect(one.sql.replace(/\s+/g, ' ').trim()).toMatchInlineSnapshot(
    `"/* prepared */ with given as materialized ( select $1::jsonb as facts ), closed as ( delete from "sluice"."effect_claim" c using given where c.claim_number = any($2::bigint[]) and given.facts -> c.claim_number::text -> 'fence' = jsonb_build_array(c.effect_id::text, c.repo_id, c.attempt, c.claimant) returning c.effect_id, c.claim_number, c.claimed_at ), accepted as materialized ( select array_agg(effect_id order by effect_id) as effects, array_agg(claim_number order by effect_id) as numbers, array_agg(claimed_at order by effect_id) as claimed_at from closed ), removed as ( delete from "sluice"."effect_queue" q where q.effect_id = any((select effects from accepted)::bigint[]) returning q.* ), finished as ( select q.*, a.numbers[nth] as claim_number, a.claimed_at[nth] as claimed_at, given.facts -> a.numbers[nth]::text as fact from removed q, given, accepted a, width_bucket(q.effect_id, a.effects) as nth ), kept as ( insert into "sluice"."effect_history" (effect_id, repo_id, name, payload, state, outcome, reason, priority, attempts, max_attempts, dedup_key, concurrency_group, push_id, claim_number, claimant, result_ref, enqueued_at, claimed_at) select effect_id, repo_id, name, payload, fact ->> 'state', fact ->> 'outcome', fact ->> 'reason', priority, attempts + 1, max_attempts, dedup_key, concurrency_group, push_id, claim_number, fact -> 'fence' ->> 3, fact ->> 'resultRef', enqueued_at, claimed_at from finished ), retained as ( update "sluice"."effect_dedup" k set done_at = now() where k.is_retained and k.effect_id = any(array(select effect_id from finished where dedup_key is not null and fact ->> 'state' = 'done')) ), freed as ( delete from "sluice"."effect_dedup" k where k.effect_id = any(array(select effect_id from finished where dedup_key is not null)) and (not k.is_retained or k.effect_id = any(array(select effect_id from finished where dedup_key is not null and fact ->> 'state' <> 'done'))) ) select claim_number from closed"`,
  );
  expect(one.parameters).toEqual(['{"1":{"fence":["1","r",1,"w"],"state":"done","outcome":"pass"}}', ['1']]);
});
