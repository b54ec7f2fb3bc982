import { Counter, createRegistry, Gauge, Histogram, type Registry } from '@sluice/service-kit';

/** What `/_metrics` shows. */
export interface PusherMetrics {
  registry: Registry;
  pushes: Counter<'outcome'>;
  refusals: Counter<'reason'>;
  pushSeconds: Histogram;
  effectsQueued: Counter;
  reposWithheld: Gauge;
  maintenance: Counter<'outcome'>;
  packsMax: Gauge;
}

export function createPusherMetrics(): PusherMetrics {
  const registry = createRegistry();
  const registers = [registry];
  return {
    registry,
    pushes: new Counter({
      name: 'sluice_pushes_total',
      help: 'Pushes by outcome: committed, unchanged, refused.',
      labelNames: ['outcome'],
      registers,
    }),
    refusals: new Counter({
      name: 'sluice_refusals_total',
      help: 'Requests and pushes that were not let in or not taken to their end, by reason.',
      labelNames: ['reason'],
      registers,
    }),
    pushSeconds: new Histogram({
      name: 'sluice_push_commit_seconds',
      help: 'From the list of refs that git hands over to the outcome of the commit.',
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30],
      registers,
    }),
    effectsQueued: new Counter({
      name: 'sluice_push_effects_queued_total',
      help: 'Effects that pushes queued.',
      registers,
    }),
    reposWithheld: new Gauge({
      name: 'sluice_repos_withheld',
      help: 'Repositories that are not served, because objects that their refs name are not on this disk.',
      registers,
    }),
    maintenance: new Counter({
      name: 'sluice_maintenance_total',
      help: 'Repositories maintained, by outcome: done, failed.',
      labelNames: ['outcome'],
      registers,
    }),
    packsMax: new Gauge({
      name: 'sluice_packs_max',
      help: 'Most packs of a repository on this disk, at the last look.',
      registers,
    }),
  };
}
