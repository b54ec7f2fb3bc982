import { useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { claimEffects } from './claim-effects.ts';
import type { Claim, ClaimedEffect } from './claim.ts';
import { completeEffect } from './complete-effect.ts';
import { dispatcherComplete, dispatcherCompleteMany } from './dispatcher-complete.ts';
import type { EffectId } from './effect-id.ts';
import { enqueueEffects } from './enqueue-effects.ts';

const database = useTestDatabase();
let repos = 0;

async function claimed(count: number): Promise<ClaimedEffect[]> {
  const repoId = `complete/${(repos += 1)}`;
  await enqueueEffects(
    database.db,
    Array.from({ length: count }, (_, n) => ({
      repoId,
      payload: `${n}`,
      name: 'build',
      dedupKey: `k${n}`,
      pushId: 'p',
    })),
  );
  return await claimEffects(database.db, { repoId, claimedBy: 'w', limit: count });
}

const finished = (repoId: string) =>
  database.db
    .selectFrom('effect_history')
    .selectAll()
    .where('repo_id', '=', repoId)
    .orderBy('effect_id')
    .execute();
const open = (repoId: string) =>
  database.db.selectFrom('effect_claim').select('claim_number').where('repo_id', '=', repoId).execute();

test('a completed effect moves to history, with all that was known of it', async () => {
  const [effect] = await claimed(1);
  const { repoId } = effect!;
  const completion = {
    outcome: 'fail',
    reason: 'exit code 1',
    resultRef: 'refs/meta/results/build/1',
  } as const;
  expect(await completeEffect(database.db, effect!, completion)).toBe('completed');
  expect(await finished(repoId)).toMatchObject([
    {
      effect_id: effect!.effectId,
      name: 'build',
      payload: '0',
      state: 'done',
      outcome: 'fail',
      reason: 'exit code 1',
      result_ref: 'refs/meta/results/build/1',
      attempts: 1,
      max_attempts: 3,
      dedup_key: 'k0',
      push_id: 'p',
      claim_number: effect!.claimNumber,
      claimant: 'w',
      claimed_at: expect.any(Date),
      finished_at: expect.any(Date),
    },
  ]);
  const left = await database.db
    .selectFrom('effect_queue')
    .select('effect_id')
    .where('repo_id', '=', repoId)
    .execute();
  expect(left).toEqual([]);
  expect(await open(repoId)).toEqual([]);
});

test('the second completion is stale and changes nothing', async () => {
  const [effect] = await claimed(1);
  expect(await dispatcherComplete(database.db, effect!)).toBe('completed');
  const before = await finished(effect!.repoId);
  expect(await completeEffect(database.db, effect!, { outcome: 'fail' })).toBe('stale');
  expect(await dispatcherCompleteMany(database.db, [{ claim: effect!, outcome: 'timeout' }])).toEqual([]);
  expect(await finished(effect!.repoId)).toEqual(before);
});

test.each<[string, (claim: Claim) => Claim]>([
  ['number', (claim) => ({ ...claim, claimNumber: claim.claimNumber + 1_000_000n })],
  ['effect', (claim) => ({ ...claim, effectId: (claim.effectId + 1_000_000n) as EffectId })],
  ['repo', (claim) => ({ ...claim, repoId: 'another/repo' })],
  ['attempt', (claim) => ({ ...claim, attempt: claim.attempt + 1 })],
  ['claimant', (claim) => ({ ...claim, claimant: 'W' })],
])('a claim whose %s does not match is stale, and the true one still open', async (_, altered) => {
  const [effect] = await claimed(1);
  expect(await completeEffect(database.db, altered(effect!))).toBe('stale');
  expect(await open(effect!.repoId)).toHaveLength(1);
  expect(await completeEffect(database.db, effect!)).toBe('completed');
});

test('two claims that swap their effects complete neither', async () => {
  const [one, two] = await claimed(2);
  const swapped = [
    { claim: { ...one!, effectId: two!.effectId }, outcome: 'pass' },
    { claim: { ...two!, effectId: one!.effectId }, outcome: 'pass' },
  ] as const;
  expect(await dispatcherCompleteMany(database.db, swapped)).toEqual([]);
  expect(await open(one!.repoId)).toHaveLength(2);
});

test('many complete in one statement, each with its own outcome; the stale among them are left out', async () => {
  const effects = await claimed(500);
  await completeEffect(database.db, effects[7]!, { outcome: 'timeout' });
  const outcomes = ['pass', 'fail', 'timeout', 'remote'] as const;
  const completions = effects
    .map((claim, n) => ({ claim, outcome: outcomes[n % 4]!, reason: `"${n}" \\ {ü}` }))
    .toReversed();
  const accepted = await dispatcherCompleteMany(database.db, [
    ...completions,
    { claim: effects[0]!, outcome: 'fail' },
  ]);
  expect(accepted.toSorted((a, b) => (a < b ? -1 : 1))).toEqual(
    effects.filter((_, n) => n !== 7).map(({ claimNumber }) => claimNumber),
  );
  const rows = await finished(effects[0]!.repoId);
  expect(rows.filter((_, n) => n !== 7).map((row) => [row.effect_id, row.outcome, row.reason])).toEqual(
    effects.flatMap(({ effectId }, n) => (n === 7 ? [] : [[effectId, outcomes[n % 4], `"${n}" \\ {ü}`]])),
  );
  const keys = await database.db
    .selectFrom('effect_dedup')
    .select('dedup_key')
    .where('repo_id', '=', effects[0]!.repoId)
    .execute();
  expect(keys).toEqual([]);
});

test('of several completions of one claim the first counts', async () => {
  const [claim] = await claimed(1);
  const both = [
    { claim: claim!, outcome: 'fail' },
    { claim: claim!, outcome: 'pass' },
  ] as const;
  expect(await dispatcherCompleteMany(database.db, both)).toEqual([claim!.claimNumber]);
  expect(await finished(claim!.repoId)).toMatchObject([{ outcome: 'fail' }]);
});

test('of concurrent completions of one claim exactly one is accepted', async () => {
  const [effect] = await claimed(1);
  const answers = await Promise.all(Array.from({ length: 8 }, () => completeEffect(database.db, effect!)));
  expect(answers.filter((answer) => answer === 'completed')).toHaveLength(1);
  expect(await finished(effect!.repoId)).toHaveLength(1);
});

test('a rolled back completion leaves the claim open', async () => {
  const [effect] = await claimed(1);
  const attempt = database.db.transaction().execute(async (trx) => {
    expect(await completeEffect(trx, effect!)).toBe('completed');
    throw new Error('result refused');
  });
  await expect(attempt).rejects.toThrow('result refused');
  expect(await open(effect!.repoId)).toHaveLength(1);
  expect(await finished(effect!.repoId)).toEqual([]);
});

test.each([
  ['claim.attempt', { attempt: Number.NaN }, {}],
  ['claim.claimant', { claimant: 'a\0b' }, {}],
  ['claim.claimNumber', { claimNumber: 2n ** 63n }, {}],
  ['claim.claimNumber', { claimNumber: 1 as unknown as bigint }, {}],
  ['effectId', { effectId: 0n as EffectId }, {}],
  ['outcome', {}, { outcome: 'error' as 'fail' }],
  ['reason', {}, { reason: '\ud800' }],
  ['resultRef', {}, { resultRef: 'r'.repeat(1025) }],
])('a wrong %s is refused by name', async (field, claim, completion) => {
  const good = { effectId: 1n as EffectId, repoId: 'a/b', claimNumber: 1n, attempt: 1, claimant: 'w' };
  await expect(completeEffect(database.db, { ...good, ...claim }, completion)).rejects.toMatchObject({
    code: 'invalid_argument',
    message: expect.stringContaining(`${field}: expected `),
  });
});

test('no completion is no work', async () => {
  expect(await dispatcherCompleteMany(database.db, [])).toEqual([]);
});
