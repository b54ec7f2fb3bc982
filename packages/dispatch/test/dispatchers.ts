import type { ClaimedEffect } from '@sluice/queue-core/dispatcher';
import { enqueueEffects, type NewEffect } from '@sluice/queue-core/repo';
import { createDatabase, type DB } from '@sluice/db';
import type { TestDatabase } from '@sluice/testkit';
import type { Kysely } from 'kysely';
import { afterAll, afterEach } from 'vitest';
import {
  startDispatcher,
  type DispatchEvent,
  type DispatcherOptions,
  type RunContext,
  type RunningDispatcher,
  type RunResult,
} from '../src/index.ts';

export const PASS: RunResult = { status: 'done', outcome: 'pass' };

export interface TestDispatcher extends RunningDispatcher {
  readonly events: DispatchEvent[];
  /** Events of one name, in order. */
  of<N extends DispatchEvent['name']>(name: N): Extract<DispatchEvent, { name: N }>[];
}

/**
 * Dispatchers with short intervals, stopped after each test whatever it did. They share a pool that is not the test's,
 * on which they would hear in memory of what the test enqueues.
 */
export function useDispatchers(database: TestDatabase) {
  const started: RunningDispatcher[] = [];
  let pool: Kysely<DB> | undefined;
  afterAll(() => pool?.destroy());
  afterEach(async () => {
    await Promise.all(started.splice(0).map((dispatcher) => dispatcher.stop({ hurry: true })));
    await clear(database.db);
  });
  return async (
    run: (effect: ClaimedEffect, context: RunContext) => Promise<RunResult>,
    options: Partial<DispatcherOptions> = {},
  ): Promise<TestDispatcher> => {
    const events: DispatchEvent[] = [];
    const dispatcher = await startDispatcher({
      db: (pool ??= createDatabase({ connectionString: database.url, applicationName: 'dispatchers' })),
      slots: 8,
      repoCap: 4,
      pollMs: 50,
      beatMs: 200,
      leaseMs: 20_000,
      graceMs: 10_000,
      retryMinMs: 10,
      retryMaxMs: 50,
      run,
      onEvent: (event) => events.push(event),
      ...options,
    });
    started.push(dispatcher);
    return {
      events,
      of: <N extends DispatchEvent['name']>(name: N) =>
        events.filter((event): event is Extract<DispatchEvent, { name: N }> => event.name === name),
      get dispatcherId() {
        return dispatcher.dispatcherId;
      },
      get stats() {
        return dispatcher.stats;
      },
      stop: (how) => dispatcher.stop(how),
      idle: () => dispatcher.idle(),
    };
  };
}

/** Enqueues `count` effects for each of the repos. */
export async function enqueue(
  db: Kysely<DB>,
  repoIds: readonly string[],
  count: number,
  options: Partial<NewEffect> = {},
): Promise<void> {
  const effects = repoIds.flatMap((repoId) =>
    Array.from({ length: count }, (_, index) => ({ repoId, payload: `${repoId}#${index}`, ...options })),
  );
  await enqueueEffects(db, effects);
}

async function clear(db: Kysely<DB>): Promise<void> {
  await db.deleteFrom('effect_claim').execute();
  await db.deleteFrom('effect_queue').execute();
  await db.deleteFrom('effect_history').execute();
  await db.deleteFrom('repo').execute();
  await db.updateTable('queue_limit').set({ global_cap: null }).execute();
}

export function names(count: number, prefix = 'repo'): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}${index}`);
}
