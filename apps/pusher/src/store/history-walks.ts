import type { Logger } from '@sluice/service-kit';

export interface HistoryWalksOptions {
  /** Walks through a repository; returns what is missing, null: nothing. */
  walk: (repoId: string, folder: string, signal: AbortSignal) => Promise<string | null>;
  /** Told how each walk ended. */
  onWalked: (repoId: string, folder: string, gap: string | null) => void;
  log: Logger;
  /** Monotonic milliseconds. */
  now: () => number;
}

interface Walk {
  endedAt: number;
  gap: string | null;
  /** The packs when it began. */
  packs: ReadonlySet<string>;
}

/** Reasons to walk come from whoever may fetch, and a walk through a large repository takes minutes. */
const WHOLE_EVERY_MS = 10 * 60_000;
/** A repository with a gap is looked at more often: somebody is about to fill it. */
const GAP_EVERY_MS = 60_000;
/** Walks remembered; the oldest is forgotten first. */
const WALKS_MAX = 1_000;

/** Has repositories walked through, one at a time and none more often than it is worth. A walk that fails says nothing. */
export class HistoryWalks {
  readonly #options: HistoryWalksOptions;
  readonly #waiting = new Map<string, { folder: string; packs: ReadonlySet<string> }>();
  readonly #walks = new Map<string, Walk>();
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;

  constructor(options: HistoryWalksOptions) {
    this.#options = options;
  }

  /** Has a repository with these packs walked through soon, unless that was done lately. */
  ask(repoId: string, folder: string, packs: ReadonlySet<string>): void {
    if (this.#stop.signal.aborted || this.#isRecent(repoId, packs)) return;
    this.#waiting.set(repoId, { folder, packs });
    this.#start();
  }

  /** Ends the walk that is under way; no other begins. */
  async stop(): Promise<void> {
    this.#stop.abort();
    this.#waiting.clear();
    await this.#running;
  }

  #start(): void {
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
      if (this.#waiting.size > 0) this.#start();
    });
  }

  #isRecent(repoId: string, packs: ReadonlySet<string>): boolean {
    const last = this.#walks.get(repoId);
    if (last === undefined) return false;
    const age = this.#options.now() - last.endedAt;
    if (last.gap === null) return age < WHOLE_EVERY_MS;
    const isSame = last.packs.size === packs.size && [...packs].every((name) => last.packs.has(name));
    return isSame && age < GAP_EVERY_MS;
  }

  async #run(): Promise<void> {
    const { walk, onWalked, log } = this.#options;
    for (const [repoId, { folder, packs }] of this.#waiting) {
      this.#waiting.delete(repoId);
      let gap = this.#walks.get(repoId)?.gap ?? null;
      try {
        gap = await walk(repoId, folder, this.#stop.signal);
        onWalked(repoId, folder, gap);
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        log.error({ event: 'walk_failed', repo_id: repoId, error });
      }
      this.#remember(repoId, { gap, packs });
    }
  }

  #remember(repoId: string, walk: Omit<Walk, 'endedAt'>): void {
    this.#walks.delete(repoId);
    if (this.#walks.size >= WALKS_MAX) this.#walks.delete(this.#walks.keys().next().value!);
    this.#walks.set(repoId, { ...walk, endedAt: this.#options.now() });
  }
}
