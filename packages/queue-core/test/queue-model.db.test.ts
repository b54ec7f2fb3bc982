import { useTestDatabase } from '@sluice/testkit';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { cancelEffects } from '../src/cancel-effects.ts';
import { claimEffects } from '../src/claim-effects.ts';
import type { Claim } from '../src/claim.ts';
import { completeEffect } from '../src/complete-effect.ts';
import { effectId } from '../src/effect-id.ts';
import { enqueueEffects } from '../src/enqueue-effects.ts';
import type { NewEffect } from '../src/new-effect.ts';
import { emptyModel, type Model } from './queue-model.ts';

const database = useTestDatabase();
let repos = 0;

interface World {
  repoId: string;
  /** Every claim ever made, open or not. */
  claims: Claim[];
}

type Step = fc.AsyncCommand<Model, World>;

const newEffect = fc.record(
  {
    payload: fc.constant('x'),
    priority: fc.integer({ min: -1, max: 1 }),
    dedupKey: fc.constantFrom('k1', 'k2'),
    isRetained: fc.boolean(),
    concurrencyGroup: fc.constantFrom('g1', 'g2'),
    supersede: fc.boolean(),
    isScheduled: fc.boolean(),
  },
  { requiredKeys: ['payload'] },
);

function enqueue(drawn: readonly ReturnType<typeof newEffectOf>[]): Step {
  return {
    check: () => true,
    async run(model, { repoId }) {
      const effects = drawn.map((effect) => ({ ...effect, repoId }));
      const got = await enqueueEffects(database.db, effects);
      const expected = model.enqueue(
        effects,
        got.map(({ effectId }) => effectId),
      );
      expect(got.map(({ status }) => status)).toEqual(expected);
      await expectEqual(model, repoId);
    },
    toString: () => `enqueue(${JSON.stringify(drawn)})`,
  };
}

function newEffectOf(
  drawn: typeof newEffect extends fc.Arbitrary<infer T> ? T : never,
): Omit<NewEffect, 'repoId'> {
  const { isRetained, isScheduled, supersede, ...rest } = drawn;
  return {
    ...rest,
    retainDedupKey: isRetained === true && rest.dedupKey !== undefined,
    supersede: supersede === true && rest.concurrencyGroup !== undefined,
    ...(isScheduled === true ? { delayMs: 3_600_000 } : {}),
  };
}

function claim(limit: number): Step {
  return {
    check: () => true,
    async run(model, world) {
      const effects = await claimEffects(database.db, { repoId: world.repoId, claimedBy: 'w', limit });
      expect(effects.map(({ effectId }) => effectId)).toEqual(model.claim(limit));
      world.claims.push(...effects);
      await expectEqual(model, world.repoId);
    },
    toString: () => `claim(${limit})`,
  };
}

function complete(nth: number): Step {
  return {
    check: (model) => model.claimsMade > 0,
    async run(model, world) {
      const lease = world.claims[nth % world.claims.length]!;
      expect(await completeEffect(database.db, lease)).toBe(model.complete(lease.effectId));
      await expectEqual(model, world.repoId);
    },
    toString: () => `complete(${nth})`,
  };
}

function cancel(nths: readonly number[]): Step {
  return {
    check: (model) => model.effects.size > 0,
    async run(model, { repoId }) {
      const ids = [...model.effects.keys()].map(effectId);
      const effectIds = [...new Set(nths.map((nth) => ids[nth % ids.length]!))];
      const got = await cancelEffects(database.db, { repoId, effectIds, reason: 'why' });
      expect(got).toEqual(model.cancel(effectIds));
      await expectEqual(model, repoId);
    },
    toString: () => `cancel(${nths.join()})`,
  };
}

/** States, keys in force and open claims, as rows and as the model has them. */
async function expectEqual(model: Model, repoId: string): Promise<void> {
  const rows = await database.db
    .selectFrom('effect')
    .select(['effect_id', 'state'])
    .where('repo_id', '=', repoId)
    .execute();
  expect(new Map(rows.map((row) => [row.effect_id, row.state]))).toEqual(model.states());
  const keys = await database.db
    .selectFrom('effect_dedup')
    .select(['dedup_key', 'effect_id'])
    .where('repo_id', '=', repoId)
    .execute();
  expect(new Map(keys.map((row) => [row.dedup_key, row.effect_id]))).toEqual(model.keys);
}

test('any sequence of operations leaves what the model says', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        cap: fc.option(fc.integer({ min: 1, max: 3 })),
        maxQueued: fc.option(fc.integer({ min: 0, max: 4 })),
      }),
      fc.commands(
        [
          fc.array(newEffect.map(newEffectOf), { minLength: 1, maxLength: 5 }).map(enqueue),
          fc.integer({ min: 1, max: 3 }).map(claim),
          fc.nat(20).map(complete),
          fc.array(fc.nat(20), { minLength: 1, maxLength: 3 }).map(cancel),
        ],
        { maxCommands: 15 },
      ),
      async ({ cap, maxQueued }, steps) => {
        const repoId = `model/${(repos += 1)}`;
        await database.db
          .insertInto('repo')
          .values({ repo_id: repoId, cap, max_queued: maxQueued })
          .execute();
        const setup = () => ({ model: emptyModel({ cap, maxQueued }), real: { repoId, claims: [] } });
        await fc.asyncModelRun(setup, steps);
      },
    ),
    { numRuns: 100, endOnFailure: true },
  );
}, 120_000);
