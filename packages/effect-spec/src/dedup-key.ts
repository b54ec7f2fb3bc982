import { createHash } from 'node:crypto';
import type { EffectDefinition } from './effect-definition.ts';
import type { WorkOrder } from './work-order.ts';

/**
 * The key under which an effect runs once: SHA-256, in hex, over the JSON array
 * `[1, repo, effect, definition OID, ref, new OID]`. So a changed definition runs again, and each ref on its own.
 * `dedup: commit` takes the commit in place of ref and new OID: one run, however many refs name it. `dedup: push` adds
 * the push id: A, then B, then A again runs three times. A deletion is told apart by its push id in every case, since
 * there is no new OID to tell two deletions of one ref apart. The arrays differ in length, so no two kinds can meet.
 */
export function dedupKey(order: WorkOrder, definition: Pick<EffectDefinition, 'dedup'>): string {
  const { repo, effect, trigger, source, push } = order;
  const subject: (string | null)[] =
    trigger.new === null || definition.dedup === 'push'
      ? [trigger.ref, trigger.new, push.id]
      : definition.dedup === 'commit'
        ? [source.commit]
        : [trigger.ref, trigger.new];
  return createHash('sha256')
    .update(JSON.stringify([1, repo, effect.name, effect.definition, ...subject]))
    .digest('hex');
}
