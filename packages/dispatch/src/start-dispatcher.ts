import { assertMigrated, sluice, SluiceError, sqlState, type DB } from '@sluice/db';
import type { ClaimedEffect } from '@sluice/queue-core/dispatcher';
import type { Kysely } from 'kysely';
import { systemClock, type Clock } from './clock.ts';
import type { DispatchEvent } from './dispatch-event.ts';
import { Dispatcher } from './dispatcher.ts';
import type { DispatcherParts } from './dispatcher-parts.ts';
import type { RunContext, RunResult } from './run-result.ts';

export interface DispatcherOptions {
  /** Its pool needs at least 10 connections: claims, completions, upkeep, heartbeats and output do not wait for one another. */
  db: Kysely<DB>;
  /**
   * For heartbeats alone, where `db` is not to be asked for them: a pool of its own with two connections, which ends what
   * is not answered within a beat or so. A network that forgets connections, or a table that somebody locks, can hold
   * every connection of `db` for as long as that waits for an answer, and the others take the claims of a dispatcher
   * that does not beat. The default is `db`.
   */
  heartbeatDb?: Kysely<DB> | undefined;
  /** For a connection that listens; without it (or behind a transaction-mode pooler) the queue is polled. */
  connectionString?: string | undefined;
  /** Most effects it runs at once. */
  slots: number;
  /** Most effects of one repo at once, by all dispatchers together, where the repo has no cap of its own. */
  repoCap: number;
  /** It is dead when its last heartbeat is older; the default is 20 s. */
  leaseMs?: number | undefined;
  /** Between heartbeats; the default is 5 s. */
  beatMs?: number | undefined;
  /** Within this time work is found even if no notification comes; the default is 2 s. */
  pollMs?: number | undefined;
  /** How long a stop waits for runs before it aborts them; the default is 10 s. */
  graceMs?: number | undefined;
  /** Delay before the second attempt after an error; doubles with each further one. The default is 1 s. */
  retryMinMs?: number | undefined;
  /** Longest delay between attempts; the default is 5 min. */
  retryMaxMs?: number | undefined;
  /** Age at which finished effects and their output are dropped; the default is 30 days. */
  retentionDays?: number | undefined;
  /** Runs one effect. What it throws counts as an infrastructure error, which is retried. */
  run: (effect: ClaimedEffect, context: RunContext) => Promise<RunResult>;
  /** Called for everything worth a log line; must not throw. */
  onEvent?: ((event: DispatchEvent) => void) | undefined;
  clock?: Clock | undefined;
}

/** Counts since it was started. */
export interface DispatcherStats {
  readonly running: number;
  readonly claimed: number;
  readonly completed: number;
  /** Attempts that will be retried. */
  readonly retried: number;
  readonly dead: number;
  /** Closings that changed nothing, because the claim had been taken away. */
  readonly stale: number;
  readonly handedBack: number;
}

export interface RunningDispatcher {
  /** Its present id: the claimant of its claims. */
  readonly dispatcherId: string;
  readonly stats: DispatcherStats;
  /**
   * Stops claiming, hands back what has not started, waits for the rest up to the grace, then aborts and hands back.
   * No attempt is spent by handing back. With `hurry`, also in a second call, it aborts at once. Ends within the grace
   * and some 20 s, whatever the database does.
   */
  stop(options?: { hurry?: boolean }): Promise<void>;
  /** Resolves when it finds nothing to run, runs nothing, and has closed every claim. Scheduled effects are not waited for. */
  idle(): Promise<void>;
}

/**
 * Starts a dispatcher in this process: it claims effects of all repositories in fair order, runs up to `slots` of them
 * at once by `run`, and closes their claims. Any number of dispatchers share a database. Delivery is at least once; an
 * attempt whose claim was lost is aborted, and cannot complete.
 *
 * @throws SluiceError `invalid_argument` for options that make no sense, `schema_out_of_date` where the tables are
 * missing; and the database's error if it cannot be reached now: later outages are waited out.
 */
export async function startDispatcher(options: DispatcherOptions): Promise<RunningDispatcher> {
  const parts = {
    db: options.db,
    heartbeatDb: options.heartbeatDb ?? options.db,
    connectionString: options.connectionString,
    slots: options.slots,
    repoCap: options.repoCap,
    leaseMs: options.leaseMs ?? 20_000,
    beatMs: options.beatMs ?? 5_000,
    pollMs: options.pollMs ?? 2_000,
    graceMs: options.graceMs ?? 10_000,
    retry: { minMs: options.retryMinMs ?? 1_000, maxMs: options.retryMaxMs ?? 300_000 },
    retentionDays: options.retentionDays ?? 30,
    run: options.run,
    emit: options.onEvent ?? (() => undefined),
    clock: options.clock ?? systemClock,
  };
  assertParts(parts);
  const dispatcher = new Dispatcher(parts);
  try {
    await dispatcher.start();
  } catch (error) {
    // Its own words for a missing table do not say how it comes to be.
    if (sqlState(error) === UNDEFINED_TABLE) await assertMigrated(sluice(parts.db));
    throw error;
  }
  return dispatcher;
}

const UNDEFINED_TABLE = '42P01';

function assertParts(parts: DispatcherParts): void {
  assertWhole('slots', parts.slots, 1, 100_000);
  assertWhole('repoCap', parts.repoCap, 1, 100_000);
  assertWhole('leaseMs', parts.leaseMs, 1, MS_MAX);
  assertWhole('beatMs', parts.beatMs, 1, MS_MAX);
  if (parts.leaseMs < 2 * parts.beatMs) {
    throw invalid(`leaseMs: expected at least two beats of ${parts.beatMs} ms, got ${parts.leaseMs}.`);
  }
  assertWhole('pollMs', parts.pollMs, 1, MS_MAX);
  assertWhole('graceMs', parts.graceMs, 0, MS_MAX);
  assertWhole('retryMinMs', parts.retry.minMs, 0, MS_MAX);
  assertWhole('retryMaxMs', parts.retry.maxMs, parts.retry.minMs, MS_MAX);
  assertWhole('retentionDays', parts.retentionDays, 1, 3_650);
}

const MS_MAX = 2 ** 31 - 1;

function assertWhole(name: string, value: number, min: number, max: number): void {
  if (Number.isInteger(value) && value >= min && value <= max) return;
  throw invalid(`${name}: expected a whole number from ${min} to ${max}, got ${String(value)}.`);
}

function invalid(problem: string): SluiceError {
  return new SluiceError('invalid_argument', `startDispatcher: ${problem}`, { next: 'Correct the option.' });
}
