import type { Oid } from './oid.ts';

export interface LogProblem {
  /** Push whose record has the fault; null: the fault is in the repository's present state. */
  pushId: Oid | null;
  problem: string;
}

/** A problem and where in the log it is; null: after all of it. */
export interface FoundProblem extends LogProblem {
  seq: bigint | null;
}

/** Most problems that are kept. */
export const PROBLEMS_MAX = 100;

export function inOrderOfTheLog(a: FoundProblem, b: FoundProblem): number {
  if (a.seq === b.seq) return 0;
  if (a.seq === null || b.seq === null) return a.seq === null ? 1 : -1;
  return a.seq < b.seq ? -1 : 1;
}
