import { inBoundedTransaction, SluiceError, type DB } from '@sluice/db';
import type { Kysely, Transaction } from 'kysely';
import { assertList } from './assert-argument.ts';
import { closeWaiting } from './close-waiting.ts';
import { acquireKeys, keyHolder, moveKeys, type KeyRequest } from './dedup-keys.ts';
import type { EffectId } from './effect-id.ts';
import { prepareBatch, readRoom, readWaiting } from './enqueue-facts.ts';
import { insertEffects } from './insert-effects.ts';
import { insertFinished } from './insert-finished.ts';
import { insertJoined } from './insert-joined.ts';
import { prepareTell, toldIds } from './neighbours.ts';
import { checkNewEffect, type NewEffect } from './new-effect.ts';
import { planEnqueue, type Candidate } from './plan-enqueue.ts';
import { lockTurns } from './turn-lock.ts';

/** Most effects of one call. */
export const ENQUEUE_MAX = 100_000;

/** What became of one effect of a batch. */
export type Enqueued =
  /** `superseded` lists what gave way to it, effects earlier in the same batch included. */
  | { effectId: EffectId; status: 'queued'; superseded: EffectId[] }
  /** Not enqueued: this effect holds its dedup key. */
  | { effectId: EffectId; status: 'duplicate'; superseded: EffectId[] }
  /** Recorded in history, not enqueued. */
  | { effectId: EffectId; status: 'skipped'; reason: string };

/**
 * Enqueues any number of effects inside the caller's transaction, with a number of statements that does not depend on
 * theirs: one for plain effects, at most ten where dedup keys, supersession or max_queued take part. The result has
 * the order of the input, and rules apply as if the effects came one after the other. What max_queued refuses becomes
 * a `skipped` row of history. Concurrent batches take keys and repos in one order, so they do not deadlock.
 */
export async function enqueueEffects(db: Kysely<DB>, effects: readonly NewEffect[]): Promise<Enqueued[]> {
  assertList('effects', effects, ENQUEUE_MAX);
  for (const [index, effect] of effects.entries()) checkOneOfMany(effect, index);
  return await enqueue(db, effects, { whenFull: 'skip' });
}

/**
 * Fields are named with their index only for an effect that is refused: the names of all are garbage, which makes for
 * more collections while the batch waits for the server. Measured, of 1,000: 0.3 of 5 µs of the caller's for each.
 */
function checkOneOfMany(effect: NewEffect, index: number): void {
  try {
    checkNewEffect(effect, '');
  } catch (error) {
    checkNewEffect(effect, `effects[${index}].`);
    throw error;
  }
}

interface Options {
  whenFull: 'skip' | 'refuse';
}

/** {@link enqueueEffects} without its checks; `whenFull: 'refuse'` throws `queue_full` before anything is written. */
export async function enqueue(
  db: Kysely<DB>,
  effects: readonly NewEffect[],
  options: Options,
): Promise<Enqueued[]> {
  const tell = prepareTell(db, effects);
  const enqueued = await enqueueUnheard(db, effects, options);
  tell(enqueued);
  return enqueued;
}

async function enqueueUnheard(
  db: Kysely<DB>,
  effects: readonly NewEffect[],
  options: Options,
): Promise<Enqueued[]> {
  if (effects.length === 0) return [];
  const [first] = effects;
  if (effects.length === 1 && first!.supersede !== true) {
    const id = await insertJoined(db, first!);
    if (id !== undefined) return [queued(id, [])];
    const holder = await keyHolder(db, first!);
    if (holder !== undefined) return [duplicate(holder)];
  } else if (!effects.some((effect) => effect.dedupKey !== undefined || effect.supersede === true)) {
    const ids = await insertEffects(db, effects, { unlessLimited: 'batch' }, toldIds(db, effects));
    if (ids !== undefined) return ids.map((id) => queued(id, []));
  }
  return await inBoundedTransaction(db, (trx) => enqueueByRules(trx, effects, options.whenFull));
}

async function enqueueByRules(
  trx: Transaction<DB>,
  effects: readonly NewEffect[],
  whenFull: 'skip' | 'refuse',
): Promise<Enqueued[]> {
  const { ids, limits } = await prepareBatch(trx, effects);
  const candidates = effects.map((effect, index) => candidateOf(effect, ids[index]!));
  const superseding = candidates.filter((candidate) => candidate.supersede);
  const turns = new Set([...limits.keys(), ...superseding.map((candidate) => candidate.repoId)]);
  if (turns.size > 0) await lockTurns(trx, [...turns]);

  const requests = keyRequests(effects, ids);
  const found = await acquireKeys(trx, requests);
  const waiting = superseding.length > 0 ? await readWaiting(trx, superseding) : [];
  const room = limits.size > 0 ? await readRoom(trx, limits, waiting.length) : new Map<string, number>();
  const plan = planEnqueue(candidates, { holders: found.inForce, room, waiting });

  const isFull = whenFull === 'refuse' && plan.decisions.some((decision) => decision.status === 'skipped');
  if (isFull) {
    await moveKeys(trx, { requests, taken: found.taken, holders: found.inForce });
    throw new SluiceError(
      'queue_full',
      `expected room for an effect of ${effects[0]!.repoId}, got as many waiting effects as its max_queued allows.`,
    );
  }

  const given = new Set(ids);
  await closeWaiting(trx, {
    repoIds: [...turns],
    state: 'superseded',
    reasons: new Map(
      [...plan.supersededBy].filter(([id]) => !given.has(id)).map(([id, by]) => [id, supersededBy(by)]),
    ),
  });
  await moveKeys(trx, { requests, taken: found.taken, holders: plan.holders });

  const isQueued = (index: number) =>
    plan.decisions[index]!.status === 'queued' && !plan.supersededBy.has(ids[index]!);
  const staying = effects.filter((_, index) => isQueued(index));
  if (staying.length > 0)
    await insertEffects(trx, staying, { ids: ids.filter((_, index) => isQueued(index)) });
  await insertFinished(
    trx,
    effects.flatMap((effect, index) => {
      const { status } = plan.decisions[index]!;
      const by = plan.supersededBy.get(ids[index]!);
      if (status === 'skipped') return [bornFinished(effect, ids[index]!, 'skipped', QUEUE_FULL)];
      return by === undefined ? [] : [bornFinished(effect, ids[index]!, 'superseded', supersededBy(by))];
    }),
  );
  return plan.decisions.map((decision, index): Enqueued => {
    if (decision.status === 'queued') return queued(ids[index]!, decision.superseded);
    if (decision.status === 'skipped')
      return { effectId: ids[index] as EffectId, status: 'skipped', reason: QUEUE_FULL };
    return duplicate(decision.of);
  });
}

const QUEUE_FULL = 'queue full';
const supersededBy = (id: bigint): string => `superseded by ${id}`;

function keyRequests(effects: readonly NewEffect[], ids: readonly bigint[]): KeyRequest[] {
  return effects.flatMap(({ repoId, dedupKey, retainDedupKey = false }, index) =>
    dedupKey === undefined ? [] : [{ effectId: ids[index]!, repoId, dedupKey, isRetained: retainDedupKey }],
  );
}

function candidateOf(effect: NewEffect, effectId: bigint): Candidate {
  return {
    effectId,
    repoId: effect.repoId,
    dedupKey: effect.dedupKey ?? null,
    concurrencyGroup: effect.concurrencyGroup ?? null,
    supersede: effect.supersede ?? false,
  };
}

function bornFinished(effect: NewEffect, effectId: bigint, state: 'skipped' | 'superseded', reason: string) {
  return {
    effectId,
    state,
    reason,
    repoId: effect.repoId,
    name: effect.name ?? '',
    payload: effect.payload,
    priority: effect.priority ?? 0,
    maxAttempts: effect.maxAttempts ?? 3,
    dedupKey: effect.dedupKey ?? null,
    concurrencyGroup: effect.concurrencyGroup ?? null,
    pushId: effect.pushId ?? null,
  };
}

function queued(id: bigint, superseded: readonly bigint[]): Enqueued {
  return { effectId: id as EffectId, status: 'queued', superseded: superseded as EffectId[] };
}

function duplicate(holder: bigint): Enqueued {
  return { effectId: holder as EffectId, status: 'duplicate', superseded: [] };
}
