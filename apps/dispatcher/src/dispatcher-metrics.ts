import type { DispatcherStats } from '@sluice/dispatch';
import { Gauge, type Registry } from '@sluice/service-kit';

/** Shows a dispatcher's counts in a registry, read when somebody asks. */
export function registerDispatcherMetrics(registry: Registry, stats: () => DispatcherStats): void {
  const show = (name: string, help: string, key: keyof DispatcherStats): void => {
    const gauge: Gauge = new Gauge({
      name,
      help,
      registers: [registry],
      collect: () => gauge.set(stats()[key]),
    });
  };
  show('sluice_effects_running', 'Effects that run now', 'running');
  show('sluice_effects_claimed_total', 'Effects claimed since the start', 'claimed');
  show('sluice_effects_completed_total', 'Effects completed since the start', 'completed');
  show('sluice_effects_retried_total', 'Attempts that ended in an error and are retried', 'retried');
  show('sluice_effects_dead_total', 'Effects given up after their last attempt', 'dead');
  show('sluice_effects_stale_total', 'Ends of runs whose claim had been lost', 'stale');
  show('sluice_effects_handed_back_total', 'Effects handed back without an attempt spent', 'handedBack');
}
