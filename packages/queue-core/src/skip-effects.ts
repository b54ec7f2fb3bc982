import { type DB } from '@sluice/db';
import type { Kysely } from 'kysely';
import { assertList, assertText } from './assert-argument.ts';
import type { EffectId } from './effect-id.ts';
import { ENQUEUE_MAX } from './enqueue-effects.ts';
import { insertFinished } from './insert-finished.ts';
import { checkNewEffect, type NewEffect } from './new-effect.ts';

/** A match that a rule refused: recorded, so that nothing is dropped silently. */
export type SkippedEffect = Pick<NewEffect, 'repoId' | 'name' | 'payload' | 'pushId'> & { reason: string };

/** Records effects that will not run, born finished, with the reason why; returns their ids in order. */
export async function skipEffects(db: Kysely<DB>, effects: readonly SkippedEffect[]): Promise<EffectId[]> {
  assertList('effects', effects, ENQUEUE_MAX);
  for (const [index, effect] of effects.entries()) {
    checkNewEffect(effect, `effects[${index}].`);
    assertText(`effects[${index}].reason`, effect.reason, 2000);
  }
  const ids = await insertFinished(
    db,
    effects.map((effect) => ({
      repoId: effect.repoId,
      name: effect.name ?? '',
      payload: effect.payload,
      state: 'skipped',
      reason: effect.reason,
      priority: 0,
      maxAttempts: 1,
      dedupKey: null,
      concurrencyGroup: null,
      pushId: effect.pushId ?? null,
    })),
  );
  return ids as EffectId[];
}
