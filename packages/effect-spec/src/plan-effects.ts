import { concurrencyGroup } from './concurrency-group.ts';
import { dedupKey } from './dedup-key.ts';
import type { EffectDefinition } from './effect-definition.ts';
import { META_PREFIX } from './effect-name.ts';
import { matchEffect, type TriggerEdit } from './match-effect.ts';
import { costOfEffect, stepsFor, TURN_STEPS } from './matching-steps.ts';
import { buildWorkOrder, encodeWorkOrder, HOPS_MAX } from './work-order.ts';

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
  applied: readonly TriggerEdit[];
  definitions: readonly CurrentDefinition[];
  /** What the OIDs of the edits name: a commit, tags peeled, and its tree; null: none. */
  facts: ReadonlyMap<string, { readonly commit: string | null; readonly tree: string | null }>;
  /** 0 for a person's push; one more than the effect whose result this is. */
  hops: number;
  /** Matches beyond this many, or 16 MiB, are skipped; as many of those are recorded, and the rest is only counted. */
  effectsMax: number;
  /** Why nothing of this push runs; null: everything that matches does. */
  skipReason: string | null;
}

/** An effect as the queue takes it. */
export interface PlannedEffect {
  repoId: string;
  name: string;
  payload: string;
  pushId: string;
  priority: number;
  maxAttempts: number;
  dedupKey: string;
  retainDedupKey: boolean;
  concurrencyGroup?: string;
  supersede?: boolean;
}

export interface EffectPlan {
  enqueue: { ref: string; effect: PlannedEffect }[];
  skip: { ref: string; name: string; payload: string; reason: string }[];
  /** Skipped effects in all, those beyond the ones in `skip` included. */
  skipCount: number;
  /** The first pairs of effect and ref that did not match. Those with refs below `refs/meta/` do not count. */
  unmatched: { ref: string; name: string; why: string }[];
  /** Pairs in all, those beyond the ones in `unmatched` included. */
  unmatchedCount: number;
}

/** Enough for what a person pushes, and few enough to read where a repository has hundreds of definitions. */
const UNMATCHED_SHOWN_MAX = 8;

/** Decides which effects a push causes. Pure: the same push and definitions give the same plan. */
export function planEffects(input: PlanInput): EffectPlan {
  const planning = planInTurns(input);
  for (;;) {
    const { done, value } = planning.next();
    if (done) return value;
  }
}

/** The same in turns of a few milliseconds. */
export function* planInTurns(input: PlanInput): Generator<undefined, EffectPlan> {
  const plan: EffectPlan = { enqueue: [], skip: [], skipCount: 0, unmatched: [], unmatchedCount: 0 };
  const room: Room = { enqueue: PAYLOAD_BYTES_MAX, skip: PAYLOAD_BYTES_MAX };
  const limited = { ...input, room };
  const effects = input.definitions.map((current) => ({ current, cost: costOfEffect(current.definition) }));
  let steps = 0;
  for (const edit of input.applied) {
    for (const { current, cost } of effects) {
      planOne(plan, limited, edit, current);
      steps += stepsFor(cost, edit.name);
      if (steps < TURN_STEPS) continue;
      yield;
      steps = 0;
    }
  }
  return plan;
}

/**
 * Most bytes of the payloads of one push, and as many again of those that are recorded as skipped: all are in memory at
 * once, while the transaction is open and everybody else's push waits to be planned.
 */
const PAYLOAD_BYTES_MAX = 16 * 1024 * 1024;

/** Bytes that payloads may still have; below zero once one did not fit, and then none fits. */
interface Room {
  enqueue: number;
  skip: number;
}

function fits(room: Room, list: keyof Room, payload: string): boolean {
  room[list] -= Buffer.byteLength(payload);
  return room[list] >= 0;
}

function planOne(
  plan: EffectPlan,
  input: PlanInput & { room: Room },
  edit: TriggerEdit,
  current: CurrentDefinition,
): void {
  const { name, definition } = current;
  const match = matchEffect(definition, edit);
  const { commit, tree } = input.facts.get(edit.newOid ?? edit.oldOid ?? '') ?? { commit: null, tree: null };
  const why = match.matches ? 'the ref names no commit' : match.why;
  if (!match.matches || commit === null || tree === null) {
    // Nobody expects a push of definitions to run the effects that they define.
    if (!match.matches && edit.name.startsWith(META_PREFIX)) return;
    plan.unmatchedCount += 1;
    if (plan.unmatched.length < UNMATCHED_SHOWN_MAX) plan.unmatched.push({ ref: edit.name, name, why });
    return;
  }
  const { room, effectsMax } = input;
  const refusal = refuse(plan, input);
  if (refusal !== null && (plan.skip.length >= effectsMax || room.skip < 0)) {
    plan.skipCount += 1;
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
  const reason = refusal ?? (fits(room, 'enqueue', payload) ? null : TOO_LARGE);
  if (reason !== null) {
    plan.skipCount += 1;
    if (fits(room, 'skip', payload)) plan.skip.push({ ref: edit.name, name, payload, reason });
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

const TOO_LARGE = `more than ${PAYLOAD_BYTES_MAX / 1024 ** 2} MiB of effects in one push`;

function refuse(plan: EffectPlan, input: PlanInput & { room: Room }): string | null {
  if (input.skipReason !== null) return input.skipReason;
  if (input.hops > HOPS_MAX) return `caused by a chain of more than ${HOPS_MAX} effects`;
  if (plan.enqueue.length >= input.effectsMax) return `more than ${input.effectsMax} effects in one push`;
  if (input.room.enqueue < 0) return TOO_LARGE;
  return null;
}
