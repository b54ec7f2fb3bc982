import { type DB } from '@sluice/db';
import type { Kysely } from 'kysely';
import type { EffectId } from './effect-id.ts';
import { enqueue } from './enqueue-effects.ts';
import { checkNewEffect, type NewEffect } from './new-effect.ts';

/**
 * Enqueues one effect inside the caller's transaction and returns its id; if its dedup key is in force, the id of the
 * effect that holds the key. Throws `queue_full`, having written nothing, where the repo's max_queued refuses it.
 *
 * Outside a transaction, on an instance of `createDatabase`, effects without a dedup key that are enqueued at the same
 * time share a statement and its commit: `log` is told of it once, as a part of what the first of the callers does, and
 * a lost connection fails all of them.
 */
export async function enqueueEffect(db: Kysely<DB>, effect: NewEffect): Promise<EffectId> {
  checkNewEffect(effect, '');
  const [enqueued] = await enqueue(db, [effect], { whenFull: 'refuse' });
  return enqueued!.effectId;
}
