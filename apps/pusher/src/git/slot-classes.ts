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
}

/** Divides `max` processes (at least 3): an eighth for results, the rest in halves. */
export function createSlotClasses({ max, waitMs }: { max: number; waitMs: number }): SlotClasses {
  const results = Math.max(1, Math.round(max / 8));
  const pushes = Math.max(1, Math.floor((max - results) / 2));
  const slots = (count: number): GitSlots => new GitSlots({ max: count, waitMs });
  return { reads: slots(max - results - pushes), pushes: slots(pushes), results: slots(results) };
}
