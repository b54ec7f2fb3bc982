import {
  buildWorkOrder,
  concurrencyGroup,
  dedupKey,
  DEFINITION_PREFIX,
  encodeWorkOrder,
  HOPS_MAX,
  matchEffect,
  RESULT_PREFIX,
  type EffectDefinition,
} from '@sluice/effect-spec';
import type { NewEffect } from '@sluice/queue-core/repo';
import type { AppliedEdit } from '@sluice/ref-store';
import type { FactsByOid } from './object-facts.ts';

/** A definition that is in force once the push is committed. */
export interface CurrentDefinition {
  name: string;
  oid: string;
  definition: EffectDefinition;
}

export interface PlanInput {
  repoId: string;
  pushId: string;
  signer: string | null;
  applied: readonly AppliedEdit[];
  definitions: readonly CurrentDefinition[];
  facts: FactsByOid;
  /** 0 for a person's push; one more than the effect whose result this is. */
  hops: number;
  /** Matches beyond this many are recorded as skipped. */
  effectsMax: number;
  /** Why nothing of this push runs; null: everything that matches does. */
  skipReason: string | null;
}

export interface EffectPlan {
  enqueue: { ref: string; effect: NewEffect & { name: string } }[];
  skip: { ref: string; name: string; payload: string; reason: string }[];
  /** The first few (effect, ref) pairs that did not match, and how many there were; without Sluice's own refs. */
  unmatched: { ref: string; name: string; why: string }[];
  unmatchedCount: number;
}

/** Reasons are kept for at most this many pairs that do not match. */
const UNMATCHED_KEPT = 10;

/** Decides which effects a push causes. Pure: the same push and definitions give the same plan. */
export function planEffects(input: PlanInput): EffectPlan {
  const plan: EffectPlan = { enqueue: [], skip: [], unmatched: [], unmatchedCount: 0 };
  for (const edit of input.applied) {
    for (const current of input.definitions) planOne(plan, input, edit, current);
  }
  return plan;
}

/** Nobody expects a push of definitions to run the effects they define: not worth a line for each pair. */
function isOwnRef(ref: string): boolean {
  return ref.startsWith(DEFINITION_PREFIX) || ref.startsWith(RESULT_PREFIX);
}

function planOne(plan: EffectPlan, input: PlanInput, edit: AppliedEdit, current: CurrentDefinition): void {
  const { name, definition } = current;
  const match = matchEffect(definition, edit);
  const { commit, tree } = input.facts.get(edit.newOid ?? edit.oldOid ?? '') ?? { commit: null, tree: null };
  const why = match.matches ? 'the ref names no commit' : match.why;
  if (!match.matches || commit === null || tree === null) {
    if (isOwnRef(edit.name) && !definition.on.meta) return;
    plan.unmatchedCount += 1;
    if (plan.unmatched.length < UNMATCHED_KEPT) plan.unmatched.push({ ref: edit.name, name, why });
    return;
  }
  const order = buildWorkOrder(definition, {
    repo: input.repoId,
    push: { id: input.pushId, signer: input.signer },
    effect: { name, definition: current.oid },
    edit,
    source: { commit, tree },
    hops: Math.min(input.hops, HOPS_MAX),
  });
  const payload = encodeWorkOrder(order);
  const reason = refuse(plan, input);
  if (reason !== null) {
    plan.skip.push({ ref: edit.name, name, payload, reason });
    return;
  }
  const group = concurrencyGroup(definition, edit.name);
  plan.enqueue.push({
    ref: edit.name,
    effect: {
      repoId: input.repoId,
      name,
      payload,
      pushId: input.pushId,
      priority: definition.priority,
      maxAttempts: definition.maxAttempts,
      dedupKey: dedupKey(order, definition),
      retainDedupKey: true,
      ...(group === undefined
        ? {}
        : { concurrencyGroup: group, supersede: definition.concurrency?.supersede ?? false }),
    },
  });
}

function refuse(plan: EffectPlan, input: PlanInput): string | null {
  if (input.skipReason !== null) return input.skipReason;
  if (input.hops > HOPS_MAX) return `caused by a chain of more than ${HOPS_MAX} effects`;
  if (plan.enqueue.length >= input.effectsMax) return `more than ${input.effectsMax} effects in one push`;
  return null;
}
