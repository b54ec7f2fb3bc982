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
    `"/* prepared */ with given as materialized ( select $1::bigint[] as numbers, $2::bigint[] as effects, $3::integer[] as attempts, $4::jsonb as facts ), closed as ( delete from "sluice"."effect_claim" c using given g where c.effect_id = any(g.effects) and c.claim_number = g.numbers[width_bucket(c.claim_number, g.numbers)] and c.effect_id = g.effects[width_bucket(c.claim_number, g.numbers)] and c.attempt = g.attempts[width_bucket(c.claim_number, g.numbers)] and c.repo_id = g.facts -> (width_bucket(c.claim_number, g.numbers) - 1) ->> 0 and c.claimant = g.facts -> (width_bucket(c.claim_number, g.numbers) - 1) ->> 1 returning c.effect_id, c.claim_number, c.claimed_at, width_bucket(c.claim_number, g.numbers) as nth ), accepted as materialized ( select array_agg(effect_id order by effect_id) as effects, array_agg(claimed_at order by effect_id) as claimed_at, array_agg(nth order by effect_id) as nths from closed ), removed as ( delete from "sluice"."effect_queue" q where q.effect_id = any((select effects from accepted)::bigint[]) returning q.* ), finished as ( select q.*, g.numbers[a.nths[place]] as claim_number, a.claimed_at[place] as claimed_at, g.facts -> (a.nths[place] - 1) as fact from removed q, given g, accepted a, width_bucket(q.effect_id, a.effects) as place ), kept as ( insert into "sluice"."effect_history" (effect_id, repo_id, name, payload, state, outcome, reason, priority, attempts, max_attempts, dedup_key, concurrency_group, push_id, claim_number, claimant, result_ref, enqueued_at, claimed_at) select effect_id, repo_id, name, payload, fact ->> 2, fact ->> 3, fact ->> 4, priority, attempts + 1, max_attempts, dedup_key, concurrency_group, push_id, claim_number, fact ->> 1, fact ->> 5, enqueued_at, claimed_at from finished ), retained as ( update "sluice"."effect_dedup" k set done_at = now() where k.is_retained and k.effect_id = any(array(select effect_id from finished where dedup_key is not null and fact ->> 2 = 'done')) ), freed as ( delete from "sluice"."effect_dedup" k where k.effect_id = any(array(select effect_id from finished where dedup_key is not null)) and (not k.is_retained or k.effect_id = any(array(select effect_id from finished where dedup_key is not null and fact ->> 2 <> 'done'))) ) select claim_number::text from closed"`,
  );
  expect(one.parameters).toEqual([[1n], [1n], [1], '[["r","w","done","pass",null,null]]']);
});
