import type { DB } from '@sluice/db';
import { oldestWaitingMs, type DispatcherStats } from '@sluice/dispatch';
import { Counter, Gauge, type Registry } from '@sluice/service-kit';
import type { Kysely } from 'kysely';

/** Shows a dispatcher's counts in a registry, read when somebody asks. */
export function registerDispatcherMetrics(registry: Registry, stats: () => DispatcherStats): void {
  const running: Gauge = new Gauge({
    name: 'sluice_effects_running',
    help: 'Effects that run now',
    registers: [registry],
    collect: () => running.set(stats().running),
  });
  const show = (name: string, help: string, key: keyof DispatcherStats): void => {
    const counter: Counter = new Counter({
      name,
      help,
      registers: [registry],
      collect: () => {
        counter.reset();
        counter.inc(stats()[key]);
      },
    });
  };
  show('sluice_effects_claimed_total', 'Effects claimed since the start', 'claimed');
  show('sluice_effects_completed_total', 'Effects completed since the start', 'completed');
  show('sluice_effects_retried_total', 'Attempts that ended in an error and are retried', 'retried');
  show('sluice_effects_dead_total', 'Effects given up after their last attempt', 'dead');
  show('sluice_effects_stale_total', 'Ends of runs whose claim had been lost', 'stale');
  show('sluice_effects_handed_back_total', 'Effects handed back without an attempt spent', 'handedBack');
}

/** An answer is used again for so long, however often somebody asks: with very many repositories it is not free. */
const AGE_KEPT_MS = 10_000;

/**
 * Shows how long the effect that waits longest has waited, of all repositories: what to watch for starvation. One number,
 * whatever the number of repositories; every dispatcher shows the same. NaN while the database does not say.
 */
export function registerQueueMetrics(registry: Registry, db: Kysely<DB>): void {
  let askedAt = -Infinity;
  let seconds = Promise.resolve(Number.NaN);
  const gauge: Gauge = new Gauge({
    name: 'sluice_queue_oldest_waiting_seconds',
    help: 'How long the effect that waits longest for its turn has waited, paused repositories aside; 0: none waits',
    registers: [registry],
    collect: async () => {
      if (performance.now() - askedAt > AGE_KEPT_MS) {
        askedAt = performance.now();
        seconds = oldestWaitingMs(db).then(
          (ms) => (ms ?? 0) / 1_000,
          () => Number.NaN,
        );
      }
      gauge.set(await seconds);
    },
  });
}
