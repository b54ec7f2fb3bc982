import type { DB } from '@sluice/db';
import {
  countDeadRows,
  dispatcherRequeueStale,
  maintainPartitions,
  promoteDue,
  vacuumHotTable,
} from '@sluice/queue-core/dispatcher';
import type { Kysely } from 'kysely';
import { BoundedCalls } from './bounded-calls.ts';
import { ClockLeaps } from './clock-leaps.ts';
import type { Clock } from './clock.ts';
import { DeadRows } from './dead-rows.ts';
import type { DispatchEvent } from './dispatch-event.ts';

/** Claims of claimants that no dispatcher row stands for: somebody's own worker, so far as we know. */
const UNREGISTERED_CLAIM_MS = 15 * 60_000;
const PROMOTE_MAX = 1_000;
/** A task that takes longer counts as failed, so that the others are done; dropping old rows may take an hour. */
const TASK_BOUND_MS = 30_000;
/** Of a table that a long transaction let grow to gigabytes; a pool may end its queries sooner. */
const VACUUM_BOUND_MS = 600_000;
/** Floor between two looks at what is due. */
const DUE_MS_MIN = 10;
const PARTITIONS_EVERY_MS = 3_600_000;
/** After a failure, or when a partition had to be skipped. */
const PARTITIONS_RETRY_MS = 60_000;
const PARTITION_DAYS_AHEAD = 3;

type Task = Extract<DispatchEvent, { name: 'upkeep_failed' }>['task'];

/** What has to be done from time to time by whoever is alive. A failing task is reported and holds up no other. */
export class Upkeep {
  readonly #db: Kysely<DB>;
  readonly #clock: Clock;
  readonly #emit: (event: DispatchEvent) => void;
  readonly #pollMs: number;
  readonly #retentionDays: number;
  readonly #mayJudge: () => boolean;
  readonly #onDue: (repoId: string, effectId: bigint) => void;
  readonly #sweep: () => Promise<void>;
  readonly #stop: AbortSignal;
  readonly #calls = new Map<Task, BoundedCalls>();
  #partitionsDueAt = -Infinity;
  #partitions: Promise<unknown> | undefined;
  readonly #deadRows = new DeadRows();
  readonly #leaps: ClockLeaps;
  #vacuuming: Promise<unknown> | undefined;

  constructor(options: {
    db: Kysely<DB>;
    clock: Clock;
    emit: (event: DispatchEvent) => void;
    pollMs: number;
    beatMs: number;
    retentionDays: number;
    /** Whether a late heartbeat of another may be held against it. */
    mayJudge: () => boolean;
    onDue: (repoId: string, effectId: bigint) => void;
    sweep: () => Promise<void>;
    stop: AbortSignal;
  }) {
    this.#db = options.db;
    this.#clock = options.clock;
    this.#emit = options.emit;
    this.#pollMs = options.pollMs;
    this.#retentionDays = options.retentionDays;
    this.#mayJudge = options.mayJudge;
    this.#onDue = options.onDue;
    this.#sweep = options.sweep;
    this.#stop = options.stop;
    this.#leaps = new ClockLeaps({
      // A heart that beats late by one beat is not dead for any lease: each is two beats or more.
      leapMsMin: options.beatMs,
      onLeap: (aheadMs) => options.emit({ name: 'database_clock_leapt', aheadMs: Math.round(aheadMs) }),
    });
  }

  /** A round each poll interval, and in between a look at what is due as soon as something is; ends when stopped. */
  async run(): Promise<void> {
    while (!this.#stop.aborted) {
      const endAt = this.#clock.now() + this.#pollMs;
      let waitMs = await this.#round();
      while (!this.#stop.aborted) {
        const left = endAt - this.#clock.now();
        await this.#clock.sleep(Math.max(DUE_MS_MIN, Math.min(left, waitMs)), this.#stop);
        if (this.#stop.aborted || this.#clock.now() >= endAt) break;
        waitMs = await this.#promoteDue();
      }
    }
    await Promise.all([this.#partitions, this.#vacuuming]);
  }

  /** Everything once; returns the time until the next scheduled effect is due. */
  async #round(): Promise<number> {
    await this.#attempt('requeue_stale', () => this.#requeueStale());
    const nextDueInMs = await this.#promoteDue();
    await this.#attempt('sweep', this.#sweep);
    this.#startPartitions();
    this.#startVacuum();
    return nextDueInMs;
  }

  /** At its own pace, and nobody waits for it: it may have to wait for a lock, or have much to delete. One at a time. */
  #startPartitions(): void {
    if (this.#partitions !== undefined || this.#clock.now() < this.#partitionsDueAt) return;
    this.#partitionsDueAt = this.#clock.now() + PARTITIONS_RETRY_MS;
    const run = () => this.#maintainPartitions();
    this.#partitions = this.#attempt('maintain_partitions', run, PARTITIONS_EVERY_MS).finally(() => {
      this.#partitions = undefined;
    });
  }

  /** Nobody waits for it either: after a long backlog it may take seconds. */
  #startVacuum(): void {
    this.#vacuuming ??= this.#attempt('vacuum', () => this.#vacuum(), VACUUM_BOUND_MS).finally(() => {
      this.#vacuuming = undefined;
    });
  }

  async #vacuum(): Promise<void> {
    const before = await countDeadRows(this.#db);
    const due = this.#deadRows.due(before);
    if (due.length === 0) return;
    for (const name of due) {
      // One that is cut off counts too, as it does where the pool ends each query after a minute: the next one would be
      // cut off like it, and so on, one after the other.
      this.#deadRows.vacuumed([name], before);
      await vacuumHotTable(this.#db, name);
    }
    this.#deadRows.vacuumed(due, await countDeadRows(this.#db));
  }

  async #requeueStale(): Promise<void> {
    const askedAt = this.#clock.now();
    const count = await dispatcherRequeueStale(this.#db, {
      olderThanMs: UNREGISTERED_CLAIM_MS,
      agesFrom: (databaseMs) => {
        // Seen also while it may not judge, when nothing is old: a leap in that time would look like age afterwards.
        const from = this.#leaps.countsFrom(databaseMs, { askedAt, answeredAt: this.#clock.now() });
        return this.#mayJudge() ? from : databaseMs;
      },
    });
    if (count > 0) this.#emit({ name: 'stale_requeued', count });
  }

  /** Returns how long nothing more is due; for ever, if nothing is scheduled or what is due cannot be had now. */
  async #promoteDue(): Promise<number> {
    const promotion = await this.#attempt('promote_due', () => promoteDue(this.#db, { limit: PROMOTE_MAX }));
    if (promotion === undefined) return Infinity;
    const { promoted, nextDueInMs } = promotion;
    for (const { repoId, effectId } of promoted) this.#onDue(repoId, effectId);
    // Somebody holds the row: left to the next round rather than asked for again and again.
    if (promoted.length === 0 && nextDueInMs === 0) return Infinity;
    return nextDueInMs ?? Infinity;
  }

  async #maintainPartitions(): Promise<void> {
    const days = { daysAhead: PARTITION_DAYS_AHEAD, retentionDays: this.#retentionDays };
    const { created, dropped, skipped } = await maintainPartitions(this.#db, days);
    this.#emit({ name: 'partitions_maintained', created, dropped, skipped });
    this.#partitionsDueAt =
      this.#clock.now() + (skipped.length === 0 ? PARTITIONS_EVERY_MS : PARTITIONS_RETRY_MS);
  }

  async #attempt<T>(task: Task, run: () => Promise<T>, boundMs = TASK_BOUND_MS): Promise<T | undefined> {
    try {
      const calls = this.#calls.get(task) ?? new BoundedCalls(this.#clock);
      this.#calls.set(task, calls);
      return await calls.run(boundMs, task, run);
    } catch (error) {
      this.#emit({ name: 'upkeep_failed', task, error });
      return undefined;
    }
  }
}
