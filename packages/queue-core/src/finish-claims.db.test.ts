import { useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { claimEffects } from './claim-effects.ts';
import type { Claim } from './claim.ts';
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

test('each field of a claim counts, also where another finish of the batch has the right one', async () => {
  const repoId = 'f/2';
  await enqueueEffects(
    database.db,
    [1, 2, 3].map(String).map((payload) => ({ repoId, payload })),
  );
  const claims = await claimEffects(database.db, { repoId, claimedBy: 'w', limit: 3 });
  const [one, two, three] = [claims[0]!, claims[1]!, claims[2]!];
  const done = (claim: Claim): Finish => ({ claim, state: 'done', outcome: 'pass' });
  const wrong = [
    { ...one, effectId: two.effectId },
    { ...two, effectId: one.effectId },
    { ...one, claimNumber: three.claimNumber + 1n },
    { ...three, attempt: 2 },
  ];
  expect(await finishClaims(database.db, wrong.map(done))).toEqual([]);
  for (const field of ['repoId', 'claimant'] as const) {
    expect(await finishClaims(database.db, [done({ ...one, [field]: 'other' })])).toEqual([]);
  }
  const late = { ...one, claimNumber: one.claimNumber - 1n };
  const accepted = await finishClaims(database.db, [late, three, one, late].map(done));
  expect(accepted).toHaveLength(2);
  expect(new Set(accepted)).toEqual(new Set([one.claimNumber, three.claimNumber]));
  const open = await database.db.selectFrom('effect_claim').select('claim_number').execute();
  expect(open.map((row) => row.claim_number)).toContain(two.claimNumber);
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
    `"/* prepared */ with given as materialized ( select $1::bigint[] as effects, $2::bigint[] as numbers, $3::integer[] as attempts, $4::jsonb as facts ), closed as ( delete from "sluice"."effect_claim" c using given g where c.effect_id = any(g.effects) and c.claim_number = g.numbers[width_bucket(c.effect_id, g.effects)] and c.attempt = g.attempts[width_bucket(c.effect_id, g.effects)] and c.repo_id = g.facts -> (width_bucket(c.effect_id, g.effects) - 1) ->> 0 and c.claimant = $5::text returning c.effect_id, c.claim_number, c.claimed_at ), accepted as materialized ( select array_agg(effect_id order by effect_id) as effects, array_agg(claim_number order by effect_id) as numbers, array_agg(claimed_at order by effect_id) as claimed_at from closed ), removed as ( delete from "sluice"."effect_queue" q where q.effect_id = any((select effects from accepted)::bigint[]) returning q.* ), kept as ( insert into "sluice"."effect_history" (effect_id, repo_id, name, payload, state, outcome, reason, priority, attempts, max_attempts, dedup_key, concurrency_group, push_id, claim_number, claimant, result_ref, enqueued_at, claimed_at) select q.effect_id, q.repo_id, q.name, q.payload, $6::text, $7::text, $8::text, q.priority, q.attempts + 1, q.max_attempts, q.dedup_key, q.concurrency_group, q.push_id, g.numbers[width_bucket(q.effect_id, g.effects)], $9::text, $10::text, q.enqueued_at, a.claimed_at[width_bucket(q.effect_id, a.effects)] from removed q, given g, accepted a ), keyed as materialized ( select array_agg(q.effect_id) as all_of_them, array_agg(q.effect_id) filter (where $11::text = 'done') as done from removed q, given g where q.dedup_key is not null ), retained as ( update "sluice"."effect_dedup" k set done_at = now() where k.effect_id = any((select done from keyed)::bigint[]) and k.is_retained ), freed as ( delete from "sluice"."effect_dedup" k where k.effect_id = any((select all_of_them from keyed)::bigint[]) and (not k.is_retained or (k.effect_id = any((select done from keyed)::bigint[])) is not true) ) select array_to_string(numbers, ' ') as numbers from accepted"`,
  );
  expect(one.parameters).toEqual([[1n], [1n], [1], '[["r"]]', 'w', 'done', 'pass', null, 'w', null, 'done']);
});
