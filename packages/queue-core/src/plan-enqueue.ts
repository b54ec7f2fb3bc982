/** What matters of an effect for the rules of dedup, supersession and max_queued. */
export interface Candidate {
  effectId: bigint;
  repoId: string;
  dedupKey: string | null;
  concurrencyGroup: string | null;
  supersede: boolean;
}

/** What the database said, read under the turn locks of the repos it is about. */
export interface EnqueueFacts {
  /** Keys already in force: {@link scoped} repo and key → effect id. */
  holders: ReadonlyMap<string, bigint>;
  /** How many more effects may wait, for repos with a limit. */
  room: ReadonlyMap<string, number>;
  /** Waiting effects of the groups named by superseding candidates. */
  waiting: readonly { effectId: bigint; repoId: string; dedupKey: string | null; concurrencyGroup: string }[];
}

export type Decision =
  { status: 'queued'; superseded: bigint[] } | { status: 'duplicate'; of: bigint } | { status: 'skipped' };

export interface EnqueuePlan {
  /** One per candidate, in order. */
  decisions: Decision[];
  /** Superseded effect → the one it gave way to; existing effects and earlier candidates alike. */
  supersededBy: Map<bigint, bigint>;
  /** Holder of each key of the batch in the end; a key that nobody holds is absent. */
  holders: Map<string, bigint>;
}

/** A repo-scoped name as one map key; a repo id holds no space. */
export function scoped(repoId: string, name: string): string {
  return `${repoId} ${name}`;
}

/**
 * Decides a batch as if its effects were enqueued one after the other: a later one may be a duplicate of, or
 * supersede, an earlier one of the same batch. An effect that supersedes takes the places it frees.
 */
export function planEnqueue(candidates: readonly Candidate[], facts: EnqueueFacts): EnqueuePlan {
  const holders = new Map(facts.holders);
  const room = new Map(facts.room);
  const supersededBy = new Map<bigint, bigint>();
  const groups = new Map<string, Waiting[]>(
    Map.groupBy(facts.waiting, (effect) => scoped(effect.repoId, effect.concurrencyGroup)),
  );
  const decisions = candidates.map((candidate): Decision => {
    const { effectId, repoId, dedupKey } = candidate;
    const key = dedupKey === null ? undefined : scoped(repoId, dedupKey);
    const holder = key === undefined ? undefined : holders.get(key);
    if (holder !== undefined) return { status: 'duplicate', of: holder };

    const group =
      candidate.concurrencyGroup === null ? undefined : scoped(repoId, candidate.concurrencyGroup);
    const victims = candidate.supersede && group !== undefined ? (groups.get(group) ?? []) : [];
    const left = room.get(repoId);
    if (left !== undefined) {
      if (left + victims.length < 1) return { status: 'skipped' };
      room.set(repoId, left + victims.length - 1);
    }

    for (const victim of victims) {
      supersededBy.set(victim.effectId, effectId);
      const freed = victim.dedupKey === null ? undefined : scoped(repoId, victim.dedupKey);
      if (freed !== undefined && holders.get(freed) === victim.effectId) holders.delete(freed);
    }
    if (key !== undefined) holders.set(key, effectId);
    if (group !== undefined) {
      const members = groups.get(group);
      if (members === undefined || candidate.supersede) groups.set(group, [candidate]);
      else members.push(candidate);
    }
    return { status: 'queued', superseded: victims.map((victim) => victim.effectId) };
  });
  return { decisions, supersededBy, holders };
}

type Waiting = Pick<Candidate, 'effectId' | 'repoId' | 'dedupKey'>;
