/** A repo with more open claims than its cap. */
export interface Excess {
  repo: string;
  claims: number;
  cap: number;
  /** When the newest of its open claims began, in seconds by the database clock. */
  newestAt: number;
}

/** All open claims at one moment: one statement sees one snapshot. */
export interface CapSnapshot {
  total: number;
  /** Null: there is none. */
  globalCap: number | null;
  /** Repos that have exactly as many open claims as their cap. */
  reposAtCap: number;
  above: Excess[];
}

export interface CapReport {
  snapshots: number;
  /** Milliseconds from one snapshot to the next. */
  gaps: number[];
  highestTotal: number;
  /** Snapshots in which all repos together had more open claims than the global cap. */
  aboveGlobalCap: number;
  /** Snapshots in which they had exactly as many. */
  atGlobalCap: number;
  /** Snapshots in which at least one repo was at its cap. */
  atCap: number;
  excesses: Excess[];
}

/** Gathers what snapshots of open claims show. */
export class CapWatch {
  readonly #report: CapReport = {
    snapshots: 0,
    gaps: [],
    highestTotal: 0,
    aboveGlobalCap: 0,
    atGlobalCap: 0,
    atCap: 0,
    excesses: [],
  };
  #lastAt: number | undefined;

  add({ total, globalCap, reposAtCap, above }: CapSnapshot, atMs: number): void {
    const report = this.#report;
    report.snapshots += 1;
    if (this.#lastAt !== undefined) report.gaps.push(atMs - this.#lastAt);
    this.#lastAt = atMs;
    report.highestTotal = Math.max(report.highestTotal, total);
    if (globalCap !== null && total > globalCap) report.aboveGlobalCap += 1;
    if (total === globalCap) report.atGlobalCap += 1;
    if (reposAtCap > 0) report.atCap += 1;
    report.excesses.push(...above);
  }

  get report(): CapReport {
    return this.#report;
  }
}

/**
 * The excesses that break the rule. A cap that is lowered below what runs lets that run to its end, so more claims than
 * the new cap may be open, but only as long as no claim begins: as one of them began after the cap was lowered, it began
 * although there was no room. `lowered` says when, in seconds by the database clock, each lowered cap was in force.
 */
export function unlawful(excesses: readonly Excess[], lowered: ReadonlyMap<string, number>): Excess[] {
  return excesses.filter(({ repo, newestAt }) => newestAt > (lowered.get(repo) ?? -Infinity));
}
