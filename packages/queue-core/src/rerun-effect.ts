import type { DB } from '@sluice/db';
import type { Kysely } from 'kysely';
import { assertRepoId } from './assert-argument.ts';
import { effectId, type EffectId } from './effect-id.ts';
import { enqueueEffect } from './enqueue-effect.ts';

/**
 * Enqueues a finished effect of a repo once more, with the payload, limits and push of the first time, and returns the
 * new effect's id; undefined if no finished effect of the repo has this id. It holds no dedup key: somebody asked for
 * exactly this. Throws `queue_full` where the repo's max_queued refuses it.
 */
export async function rerunEffect(
  db: Kysely<DB>,
  request: { repoId: string; effectId: EffectId },
): Promise<EffectId | undefined> {
  assertRepoId('repoId', request.repoId);
  const finished = await db
    .selectFrom('effect_history')
    .select(['name', 'payload', 'priority', 'max_attempts', 'concurrency_group', 'push_id'])
    .where('effect_id', '=', effectId(request.effectId))
    .where('repo_id', '=', request.repoId)
    .executeTakeFirst();
  if (finished === undefined) return undefined;
  return await enqueueEffect(db, {
    repoId: request.repoId,
    name: finished.name,
    payload: finished.payload,
    priority: finished.priority,
    maxAttempts: finished.max_attempts,
    ...(finished.concurrency_group === null ? {} : { concurrencyGroup: finished.concurrency_group }),
    ...(finished.push_id === null ? {} : { pushId: finished.push_id }),
  });
}
