/** The names of all contenders, Sluice first. */
export const CONTENDERS = ['sluice', 'graphile-worker', 'pg-boss', 'document'] as const;
export type ContenderName = (typeof CONTENDERS)[number];

/** One effect, the same for all: its number and its repo travel in the payload. */
export interface Job {
  repo: string;
  number: number;
}

/** A queue that takes part. */
export interface Contender {
  /** Makes its tables in an empty database. */
  install(url: string): Promise<void>;
  open(url: string): Promise<Session>;
  /** Where the claims alone can be timed. */
  openClaims?(url: string): ClaimBench;
  /** Seconds until the effects of a crashed worker are run again by default, as its own settings tell. */
  recoverySeconds?(url: string): Promise<number>;
  /** Where repos have caps. */
  openCapped?(url: string): CappedSession;
}

export interface WorkOptions {
  /** Effects at once. With `throughput` a contender chooses what is best for itself. */
  slots: number;
  /** Most effects of one repo at once; counts only where repos have caps. */
  repoCap?: number;
  /** Which of its documented settings are best. */
  purpose: 'throughput' | 'latency';
  run: (job: Job) => Promise<void> | void;
}

export interface Worker {
  /** Throws if it did not run with the settings it was given. */
  assertSettings(): void;
  stop(): Promise<void>;
}

/** A contender connected to a database, with at most {@link CONNECTIONS} connections in its pool. */
export interface Session {
  enqueue(job: Job): Promise<void>;
  enqueueMany(jobs: readonly Job[]): Promise<void>;
  work(options: WorkOptions): Promise<Worker>;
  /** Whether no effect is unfinished. */
  isDrained(): Promise<boolean>;
  /** Finished effects that it still knows of; null: it keeps none. */
  countHistory(): Promise<number | null>;
  close(): Promise<void>;
}

/** A session whose dispatcher holds to caps. */
export interface CappedSession extends Session {
  setCaps(repos: readonly string[], cap: number): Promise<void>;
  /** Adds waiting effects on the server: one of each repo, again and again. They are numbered from `from` on. */
  load(repos: readonly string[], effectsOfEach: number, from: number): Promise<void>;
  /** Gives each of the repos a cap of 1, and one open claim of somebody else. */
  saturate(repos: readonly string[]): Promise<void>;
  /** Milliseconds spent in statements that claim since it was opened. */
  claimMs(): number;
}

/** Claims alone, to be timed. */
export interface ClaimBench {
  /** Adds waiting effects on the server: one of each repo, again and again. */
  load(repos: readonly string[], effectsOfEach: number): Promise<void>;
  /** Gives each of the repos a cap of 1, and one open claim of somebody else. */
  saturate(repos: readonly string[]): Promise<void>;
  /**
   * Claims ten effects of the ten `open` repos, while the `saturated` ones have work that must not be claimed. Returns
   * the milliseconds of the claim; completing what was claimed is not timed. Throws unless it got ten.
   */
  claimTen(open: readonly string[], saturated: readonly string[]): Promise<number>;
  /** Milliseconds of one look for repos with work, where the claim relies on such a look. */
  sweep?(): Promise<number>;
  close(): Promise<void>;
}

/** The default of `pg` and of both peers. */
export const CONNECTIONS = 10;

/** As long as a small work order. */
const PADDING = 'x'.repeat(160);

export function encodeJob({ repo, number }: Job): { number: number; repo: string; padding: string } {
  return { number, repo, padding: PADDING };
}

export function openCapped(contender: Contender, url: string): CappedSession {
  if (contender.openCapped === undefined) throw new Error('expected a contender whose repos have caps');
  return contender.openCapped(url);
}

export function openClaims(contender: Contender, url: string): ClaimBench {
  if (contender.openClaims === undefined) throw new Error('expected a contender whose claims can be timed');
  return contender.openClaims(url);
}
