import { isOurPool, type DB } from '@sluice/db';
import type { Kysely } from 'kysely';

/** A dispatcher of this process: it hears of what is enqueued on its own pool in memory, as soon as that is committed. */
export interface Neighbour {
  /** What it is registered as now, if it is. */
  readonly id: string | undefined;
  onEnqueued(repoId: string, effectId: bigint): void;
}

const neighbours = new WeakMap<object, Set<Neighbour>>();

/**
 * Makes the dispatcher hear of single enqueues outside transactions on `db`, until what is returned is called. It needs
 * no notification of these then, which saves the server and this process a message each: in an idle system an effect
 * starts a tenth sooner. Where the answer to an enqueue is lost, the next sweep finds what it wrote. Nothing happens for a
 * pool that is not of `createDatabase`.
 */
export function hearInProcess(db: Kysely<DB>, neighbour: Neighbour): () => void {
  if (!isOurPool(db)) return () => undefined;
  const pool = db.getExecutor();
  const all = neighbours.get(pool) ?? new Set();
  neighbours.set(pool, all.add(neighbour));
  return () => all.delete(neighbour);
}

/** Who hears in memory of what is enqueued on `db`. */
export function neighboursOf(db: Kysely<DB>): Neighbour[] {
  return [...(neighbours.get(db.getExecutor()) ?? [])];
}
