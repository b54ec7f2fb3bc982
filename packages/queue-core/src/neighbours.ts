import { isOurPool, type DB } from '@sluice/db';
import type { Kysely } from 'kysely';
import { isForNow, type NewEffect } from './new-effect.ts';

/** A dispatcher of this process: it hears in memory of what is enqueued on its own pool, as soon as that is committed. */
export interface Neighbour {
  /** What it is registered as now, if it is. */
  readonly id: string | undefined;
  /** Effects of the repo wait that did not; none of them is older. */
  onEnqueued(repoId: string, effectId: bigint): void;
}

const neighbours = new WeakMap<object, Set<Neighbour>>();

/**
 * Makes the dispatcher hear of what is enqueued outside transactions on `db`, until what is returned is called. It needs
 * no notification then, which saves the server and this process a message each: in an idle system an effect starts a
 * tenth sooner, and one that only polls is told as well. Where the answer to an enqueue is lost, the next sweep finds what
 * it wrote. Nothing happens for a pool that is not of `createDatabase`.
 */
export function hearInProcess(db: Kysely<DB>, neighbour: Neighbour): () => void {
  if (!isOurPool(db)) return () => undefined;
  const pool = db.getExecutor();
  const all = neighbours.get(pool) ?? new Set();
  neighbours.set(pool, all.add(neighbour));
  return () => all.delete(neighbour);
}

/** Registrations that need no notification of these effects: they hear of them by {@link prepareTell}. */
export function toldIds(db: Kysely<DB>, effects: readonly NewEffect[]): string[] {
  const all = neighbours.get(db.getExecutor());
  if (all === undefined || !effects.every(isForNow)) return [];
  return [...all].flatMap(({ id }) => id ?? []);
}

/** Reads what the effects are now, and returns what tells those who hear in memory which of them were enqueued. */
export function prepareTell(
  db: Kysely<DB>,
  effects: readonly NewEffect[],
): (enqueued: readonly { effectId: bigint; status: string }[]) => void {
  const all = neighbours.get(db.getExecutor());
  if (all === undefined || all.size === 0) return () => undefined;
  const now = Date.now();
  const repoIds = effects.map(({ repoId, runAt, delayMs = 0 }) =>
    delayMs > 0 || (runAt !== undefined && runAt.getTime() > now) ? undefined : repoId,
  );
  return (enqueued) => {
    const oldest = new Map<string, bigint>();
    for (const [index, { effectId, status }] of enqueued.entries()) {
      const repoId = repoIds[index];
      if (status !== 'queued' || repoId === undefined) continue;
      const known = oldest.get(repoId);
      if (known === undefined || effectId < known) oldest.set(repoId, effectId);
    }
    for (const neighbour of all) {
      // What goes wrong there is no fault of the enqueue, which is committed.
      process.nextTick(() => {
        for (const [repoId, effectId] of oldest) neighbour.onEnqueued(repoId, effectId);
      });
    }
  };
}
