import { GitSlots } from './git-slots.ts';

/**
 * What asks for git has slots of its own, so that uploads that hang keep nobody from fetching, and neither keeps a
 * dispatcher from handing in results.
 */
export interface SlotClasses {
  /** Advertisements, fetches and clones. */
  readonly reads: GitSlots;
  readonly pushes: GitSlots;
  /** Everything on a claim's URL. */
  readonly results: GitSlots;
  /** Fetches whose request is long: it is in memory from before they have their turn until git has answered it. */
  readonly longRequests: GitSlots;
}

/** Divides `max` git processes (at least 3): an eighth for results, the rest in halves. */
export function createSlotClasses({ max, waitMs }: { max: number; waitMs: number }): SlotClasses {
  const results = Math.max(1, Math.round(max / 8));
  const pushes = Math.max(1, Math.floor((max - results) / 2));
  const slots = (count: number): GitSlots => new GitSlots({ max: count, waitMs });
  const reads = max - results - pushes;
  return {
    reads: slots(reads),
    pushes: slots(pushes),
    results: slots(results),
    // As many as can have their turn: who sends one slowly keeps nobody else waiting.
    longRequests: slots(reads),
  };
}
