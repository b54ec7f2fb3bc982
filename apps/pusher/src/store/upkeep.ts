import { setTimeout as delay } from 'node:timers/promises';
import { isUnavailable } from '@sluice/db';
import { iterateRepos, repoFolder, type KnownRepo } from '@sluice/ref-store';
import type { Logger } from '@sluice/service-kit';
import type { RefCache } from '../git/ref-cache.ts';
import { HttpError } from '../http-error.ts';
import type { PusherMetrics } from '../pusher-metrics.ts';
import type { Settings } from '../settings.ts';
import { listPacks } from './list-packs.ts';
import { maintainRepo, type MaintenanceContext, type MaintenanceReport } from './maintain-repo.ts';
import type { ObjectGuard } from './object-guard.ts';
import { sweepUnborn } from './remove-unborn.ts';
import { isOwn, sweepDebris } from './sweep-debris.ts';

const HOUR_MS = 60 * 60 * 1000;
const SWEEP_EVERY_MS = 24 * HOUR_MS;
/** Longest time for one step of one repository's maintenance. */
const STEP_MS_MAX = HOUR_MS;
/** When the first look could not be finished, as without a database. */
const RETRY_MS = 60_000;
/** A repository whose maintenance failed or was put off is left alone for so long. */
const PUT_OFF_MS = 6 * HOUR_MS;

/** What it takes to look after object stores. */
export interface UpkeepContext extends Pick<MaintenanceContext, 'db' | 'home' | 'commitTurns'> {
  settings: Pick<Settings, 'dataDir' | 'keepDays' | 'maintenanceMs' | 'uploadMs'>;
  log: Logger;
  metrics: Pick<PusherMetrics, 'maintenance' | 'packsMax'>;
  refs: Pick<RefCache, 'refresh'>;
  guard: Pick<ObjectGuard, 'isWithheld'>;
}

/**
 * What the pusher does with object stores by itself, one repository at a time and behind everybody who asks for
 * something: once at the start, removes debris, compares all refs with the disk and brings the refs on disk up to date;
 * then, every so often, looks at each repository and maintains the ones that need it, and once a day removes debris.
 */
export class Upkeep {
  readonly #context: UpkeepContext;
  readonly #stop = new AbortController();
  readonly #notBefore = new Map<string, number>();
  readonly #ended: Promise<void>;

  constructor(context: UpkeepContext) {
    this.#context = context;
    this.#ended = this.#run();
  }

  /** Gives up what is being done; nothing of it is half done. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#ended;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    const { maintenanceMs } = this.#context.settings;
    let sweptAt = performance.now();
    await this.#attempt('sweep', () => this.#sweep());
    while (!(await this.#attempt('check', () => this.#checkAll())) && !signal.aborted)
      await this.#pause(RETRY_MS);
    while (maintenanceMs > 0 && !signal.aborted) {
      if (performance.now() - sweptAt > SWEEP_EVERY_MS) {
        sweptAt = performance.now();
        await this.#attempt('sweep', () => this.#sweep());
      }
      await this.#attempt('maintenance', () => this.#maintainAll());
      await this.#pause(maintenanceMs);
    }
  }

  async #pause(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.#stop.signal }).catch(() => undefined);
  }

  async #sweep(): Promise<void> {
    const { db, log, settings } = this.#context;
    const { signal } = this.#stop;
    const removed = await sweepDebris(settings.dataDir, this.#debrisMs, signal);
    if (removed > 0) log.info({ event: 'debris_swept', removed });
    const unborn = await sweepUnborn(db, { dataDir: settings.dataDir, olderThanMs: this.#debrisMs, signal });
    if (unborn > 0) log.info({ event: 'unborn_swept', removed: unborn });
  }

  /** An upload or a repack of another process on this disk may be as old as it may become. */
  get #debrisMs(): number {
    return Math.max(this.#context.settings.uploadMs, STEP_MS_MAX) + HOUR_MS;
  }

  async #checkAll(): Promise<void> {
    const { db, guard, log } = this.#context;
    const startedAt = performance.now();
    let repos = 0;
    let withheld = 0;
    for await (const repo of iterateRepos(db)) {
      this.#stop.signal.throwIfAborted();
      if (repo.refsVersion === 0n) continue;
      repos += 1;
      await this.#refresh(repo);
      if (guard.isWithheld(repo.repoId)) withheld += 1;
    }
    log.info({ event: 'objects_checked', repos, withheld, ms: Math.round(performance.now() - startedAt) });
  }

  /** False: nobody is served from it now. Why, whoever asks is told. */
  async #refresh({ repoId }: KnownRepo): Promise<boolean> {
    try {
      await this.#context.refs.refresh(repoId);
      return true;
    } catch (error) {
      if (isUnavailable(error)) throw error;
      // An answer that anybody would get is none of an error here.
      if (!(error instanceof HttpError))
        this.#context.log.error({ event: 'repo_not_checked', repo_id: repoId, error });
      return false;
    }
  }

  async #maintainAll(): Promise<void> {
    const { db, guard, log, metrics } = this.#context;
    let packsMax = 0;
    for await (const repo of iterateRepos(db)) {
      this.#stop.signal.throwIfAborted();
      if (repo.refsVersion === 0n || this.#isPutOff(repo.repoId)) continue;
      if (guard.isWithheld(repo.repoId) && !(await this.#refresh(repo))) continue;
      const folder = repoFolder(this.#context.settings.dataDir, repo.repoId, repo.objectFormat);
      if (!(await isOwn(folder))) continue;
      try {
        await this.#maintain(repo.repoId, folder);
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        this.#putOff(repo.repoId);
        metrics.maintenance.inc({ outcome: 'failed' });
        log.error({ event: 'maintenance_failed', repo_id: repo.repoId, error });
      }
      packsMax = Math.max(packsMax, (await listPacks(folder)).length);
    }
    metrics.packsMax.set(packsMax);
  }

  async #maintain(repoId: string, folder: string): Promise<void> {
    const { log, metrics } = this.#context;
    const startedAt = performance.now();
    const report = await maintainRepo(this.#maintenanceContext(), { repoId, folder });
    if (report === null) return;
    if (report.prune !== null && 'putOff' in report.prune) this.#putOff(repoId);
    metrics.maintenance.inc({ outcome: 'done' });
    const ms = Math.round(performance.now() - startedAt);
    log.info({ event: 'repo_maintained', repo_id: repoId, ...describe(report), ms });
  }

  #maintenanceContext(): MaintenanceContext {
    const { db, home, commitTurns, refs, settings } = this.#context;
    return {
      db,
      home,
      commitTurns,
      keepDays: settings.keepDays ?? null,
      timeoutMs: STEP_MS_MAX,
      signal: this.#stop.signal,
      debrisMs: this.#debrisMs,
      refresh: (repoId) => refs.refresh(repoId),
    };
  }

  #isPutOff(repoId: string): boolean {
    const at = this.#notBefore.get(repoId);
    if (at === undefined || at > performance.now()) return at !== undefined;
    this.#notBefore.delete(repoId);
    return false;
  }

  #putOff(repoId: string): void {
    this.#notBefore.set(repoId, performance.now() + PUT_OFF_MS);
  }

  async #attempt(task: string, run: () => Promise<void>): Promise<boolean> {
    if (this.#stop.signal.aborted) return false;
    try {
      await run();
      return true;
    } catch (error) {
      if (!this.#stop.signal.aborted) this.#context.log.error({ event: 'upkeep_failed', task, error });
      return false;
    }
  }
}

function describe({ before, after, wasRepacked, prune }: MaintenanceReport): Record<string, unknown> {
  return {
    packs_before: before.packs,
    packs_after: after.packs,
    bytes_before: before.bytes,
    bytes_after: after.bytes,
    repacked: wasRepacked,
    ...(prune === null
      ? {}
      : 'putOff' in prune
        ? { prune_put_off: prune.putOff }
        : { pruned: prune.packs.length }),
  };
}
