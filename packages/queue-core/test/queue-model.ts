import type { NewEffect } from '../src/new-effect.ts';

type State = 'scheduled' | 'enqueued' | 'claimed' | 'done' | 'cancelled' | 'superseded' | 'skipped';
type Modelled = Omit<NewEffect, 'repoId'> & { state: State };

/** The queue of one repo as its contract tells it: a list of effects, worked through one at a time. */
export interface Model {
  effects: Map<bigint, Modelled>;
  keys: Map<string, bigint>;
  claimsMade: number;
  enqueue(effects: readonly Omit<NewEffect, 'repoId'>[], ids: readonly bigint[]): string[];
  claim(limit: number): bigint[];
  complete(id: bigint): 'completed' | 'stale';
  cancel(ids: readonly bigint[]): bigint[];
  states(): Map<bigint, State>;
}

export function emptyModel({ cap, maxQueued }: { cap: number | null; maxQueued: number | null }): Model {
  const effects = new Map<bigint, Modelled>();
  const keys = new Map<string, bigint>();
  const inState = (...states: State[]) => [...effects].filter(([, effect]) => states.includes(effect.state));
  const close = (id: bigint, state: State) => {
    const effect = effects.get(id)!;
    effect.state = state;
    const isKept = state === 'done' && effect.retainDedupKey === true;
    if (effect.dedupKey !== undefined && !isKept && keys.get(effect.dedupKey) === id)
      keys.delete(effect.dedupKey);
  };

  return {
    effects,
    keys,
    claimsMade: 0,
    enqueue(batch, ids) {
      return batch.map((effect, index) => {
        const id = ids[index]!;
        if (effect.dedupKey !== undefined && keys.has(effect.dedupKey)) {
          return keys.get(effect.dedupKey) === id ? 'duplicate' : `duplicate of another than ${id}`;
        }
        const waiting = inState('scheduled', 'enqueued');
        const victims =
          effect.supersede === true
            ? waiting.filter(([, other]) => other.concurrencyGroup === effect.concurrencyGroup)
            : [];
        if (maxQueued !== null && waiting.length - victims.length >= maxQueued) {
          effects.set(id, { ...effect, state: 'skipped' });
          return 'skipped';
        }
        for (const [victim] of victims) close(victim, 'superseded');
        effects.set(id, { ...effect, state: effect.delayMs === undefined ? 'enqueued' : 'scheduled' });
        if (effect.dedupKey !== undefined) keys.set(effect.dedupKey, id);
        return 'queued';
      });
    },
    claim(limit) {
      const room = Math.min(limit, (cap ?? Infinity) - inState('claimed').length);
      const taken = inState('enqueued')
        .toSorted(([a, one], [b, two]) => (two.priority ?? 0) - (one.priority ?? 0) || (a < b ? -1 : 1))
        .slice(0, Math.max(room, 0));
      for (const [, effect] of taken) effect.state = 'claimed';
      this.claimsMade += taken.length;
      return taken.map(([id]) => id);
    },
    complete(id) {
      if (effects.get(id)?.state !== 'claimed') return 'stale';
      close(id, 'done');
      return 'completed';
    },
    cancel(ids) {
      const cancelled = inState('scheduled', 'enqueued')
        .map(([id]) => id)
        .filter((id) => ids.includes(id))
        .toSorted((a, b) => (a < b ? -1 : 1));
      for (const id of cancelled) close(id, 'cancelled');
      return cancelled;
    },
    states: () => new Map([...effects].map(([id, { state }]) => [id, state])),
  };
}
