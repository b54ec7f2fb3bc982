/** Queued: in the heap. Claiming: its turn is out. Busy: sits one plan out. Full: at its cap. Idle: no work known. */
type State = 'queued' | 'claiming' | 'busy' | 'full' | 'idle';

/** What the scheduler remembers of a repo. */
export interface Repo {
  readonly repoId: string;
  weight: number;
  cap: number;
  state: State;
  /** Start tag of its next turn, in virtual time: effects per unit of weight. */
  tag: number;
  /** Tag while a plan is made: as if everything planned so far had been got. */
  planned: number;
  /** Which push into the heap is the valid one; equal tags leave in the order of their pushes. */
  ticket: number;
  /** Effects it is likely to have waiting: doubles with each full turn, so that a guess costs little. */
  likely: number;
  /** Its effects that this process holds. */
  held: number;
  busyInARow: number;
  /** Turns in which it is still awaited; below zero: in which it is not, however busy it is. */
  awaits: number;
  want: number;
  /** Work was announced while its turn was out. */
  wasAnnounced: boolean;
}

/** A repo's place in a heap. */
export interface Entry {
  readonly repo: Repo;
  readonly tag: number;
  readonly ticket: number;
}

/** A repo of which nothing is known but its name. */
export function newRepo(repoId: string, cap: number, tag: number): Repo {
  return {
    repoId,
    weight: 1,
    cap,
    state: 'idle',
    tag,
    planned: 0,
    ticket: -1,
    likely: 1,
    held: 0,
    busyInARow: 0,
    awaits: 0,
    want: 0,
    wasAnnounced: false,
  };
}

/** The order of turns: the lowest start tag first, equal ones in the order in which they came. */
export function isBefore(a: Entry, b: Entry): boolean {
  return a.tag < b.tag || (a.tag === b.tag && a.ticket < b.ticket);
}
