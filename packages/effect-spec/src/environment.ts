import type { WorkOrder } from './work-order.ts';

/**
 * The variables that a command sees: the definition's own and `SLUICE_*`. What a push chose (ref names, who signed)
 * reaches a command here and nowhere else, never inside its text. Absent facts are empty strings.
 */
export function environment(order: WorkOrder): Record<string, string> {
  return {
    ...order.env,
    SLUICE_REPO: order.repo,
    SLUICE_EFFECT: order.effect.name,
    SLUICE_DEFINITION: order.effect.definition,
    SLUICE_REF: order.trigger.ref,
    SLUICE_OLD: order.trigger.old ?? '',
    SLUICE_NEW: order.trigger.new ?? '',
    SLUICE_COMMIT: order.source.commit,
    SLUICE_TREE: order.source.tree,
    SLUICE_PUSH: order.push.id,
    SLUICE_SIGNER: order.push.signer ?? '',
    SLUICE_RESULT_REF: order.resultRef,
  };
}
