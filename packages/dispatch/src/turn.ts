/** A repo's part of the service, as the last look at the database showed it. */
export interface RepoShare {
  repoId: string;
  /** Share relative to other repos that have work; at least 1. */
  weight: number;
  /** Most of its effects that may be claimed at once; null: the scheduler's default. */
  cap: number | null;
  /** Whether fewer than its cap are claimed; by default unknown. */
  hasRoom?: boolean;
}

/** Where to look next, and for how many effects. */
export interface Turn {
  repoId: string;
  want: number;
  /** Others claim from it at the same time: wait for them rather than take what they leave. */
  isAwaited?: boolean;
}

/** What a turn brought. */
export interface TurnResult {
  repoId: string;
  got: number;
  /** Another claimer held the repo's lock: nothing is known about it. */
  isBusy: boolean;
  /** Whether it is worth waiting for the others next time: they had it, or it was awaited for too long. */
  wait?: 'worthwhile' | 'in_vain';
  /** It has no room left below its cap. */
  isFull: boolean;
  /** It may have more effects waiting. */
  hasMore: boolean;
  /** Its weight and cap, if the look showed them: it is charged by these. */
  share?: { weight: number; cap: number | null };
}
