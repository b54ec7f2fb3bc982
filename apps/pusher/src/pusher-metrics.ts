import { Counter, createRegistry, Histogram, type Registry } from '@sluice/service-kit';

/** What `/_metrics` shows. */
export interface PusherMetrics {
  registry: Registry;
  pushes: Counter<'outcome'>;
  pushSeconds: Histogram;
  effectsQueued: Counter;
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
  };
}
