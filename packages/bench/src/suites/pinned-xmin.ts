import type { ContenderName } from '../contenders/contender.ts';
import { withClient } from '../harness/bench-server.ts';
import type { Bench, Finding, Suite } from '../harness/suite.ts';
import { summarise, type Sample } from '../measure/statistics.ts';
import { drainTask } from './drain-task.ts';
import { loadTask } from './load-task.ts';

interface Entrant {
  label: string;
  contender: ContenderName;
  effects: number;
  repos: number;
}

/** The rate at the end, with the horizon free and with it held. */
interface Rates {
  free: number[];
  pinned: number[];
}

/** What happens while a long transaction somewhere keeps vacuum from removing anything. */
export const pinnedXmin: Suite = {
  name: 'pinned-xmin',
  about:
    'a drain while an old transaction holds the xmin horizon; effects per second of the last sixth, held and free',
  tasks: [drainTask, loadTask],
  async run(bench) {
    const effects = bench.isQuick ? 72_000 : 300_000;
    const ofPeers = bench.isQuick ? 18_000 : 300_000;
    const entrants: Entrant[] = [
      { label: 'sluice, 1,000 repos', contender: 'sluice', effects, repos: 1_000 },
      { label: 'sluice, one repo', contender: 'sluice', effects, repos: 1 },
      { label: 'graphile-worker', contender: 'graphile-worker', effects: ofPeers, repos: 1_000 },
      { label: 'pg-boss', contender: 'pg-boss', effects: ofPeers, repos: 1_000 },
    ];
    const rates = new Map(entrants.map(({ label }): [string, Rates] => [label, { free: [], pinned: [] }]));
    for (const _round of bench.rounds({ quick: 1, full: 3 })) {
      for (const entrant of entrants) {
        for (const state of ['free', 'pinned'] as const) {
          const perSecond = await runOnce(bench, entrant, state === 'pinned');
          rates.get(entrant.label)![state].push(perSecond);
          bench.progress(`${entrant.label}, ${state}: ${Math.round(perSecond)}/s at the end`);
        }
      }
    }
    const of = (label: string, state: keyof Rates): Sample => summarise(rates.get(label)![state]);
    return entrants.map(({ label, contender, effects: total }): Finding => ({
      name: `${label}, ${total} effects`,
      unit: 'effects/s',
      sluice: of(contender === 'sluice' ? label : 'sluice, 1,000 repos', 'pinned'),
      peers: {
        ...(contender === 'sluice' ? {} : { [label]: of(label, 'pinned') }),
        [`${label}, free`]: of(label, 'free'),
      },
      ratio: of(label, 'pinned').median / of(label, 'free').median,
      ratioOf: `${label}: held / free`,
      ...(contender === 'sluice' ? { target: { atLeast: 0.8 } } : {}),
    }));
  },
};

async function runOnce(
  bench: Bench,
  { contender, effects, repos }: Entrant,
  isPinned: boolean,
): Promise<number> {
  const database = await bench.createDatabase(contender);
  const { url } = database;
  await bench.run(loadTask, contender, { url, effects, repos });
  await database.settle();
  const input = { url, effects, warmUp: effects / 10, last: effects / 6 };
  const run = () => bench.run(drainTask, contender, input);
  const { lastPerSecond } = isPinned ? await withPinnedHorizon(url, run) : await run();
  await database.drop();
  return lastPerSecond;
}

/** A transaction with a snapshot: whatever is deleted while it is open stays in every table of its database. */
async function withPinnedHorizon<T>(url: string, run: () => Promise<T>): Promise<T> {
  return await withClient(url, async (client) => {
    await client.query('begin isolation level repeatable read');
    await client.query('select txid_current(), count(*) from pg_class');
    const result = await run();
    await client.query('commit');
    return result;
  });
}
