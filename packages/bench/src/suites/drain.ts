import { openCapped, type ContenderName } from '../contenders/contender.ts';
import type { Bench, Finding, Suite } from '../harness/suite.ts';
import type { Task } from '../harness/task.ts';
import { summarise, type Sample } from '../measure/statistics.ts';
import { drainTask } from './drain-task.ts';
import { fasterPeer } from './faster-peer.ts';
import { loadTask } from './load-task.ts';
import { repoNames } from './repo-names.ts';

const REPOS = 1_000;
const CAP = 2;

interface Entrant {
  label: string;
  contender: ContenderName;
  effects: number;
  isCapped?: boolean;
}

const setCapsTask: Task<{ url: string; repos: number; cap: number }, void> = {
  name: 'drain-set-caps',
  async run(contender, { url, repos, cap }) {
    const session = openCapped(contender, url);
    await session.setCaps(repoNames('repo', repos), cap);
    await session.close();
  },
};

/** How fast a full queue empties. */
export const drain: Suite = {
  name: 'drain',
  about:
    'no-op effects of 1,000 repos, enqueued before; effects per second until all are closed in the database',
  tasks: [drainTask, loadTask, setCapsTask],
  async run(bench) {
    const effects = bench.isQuick ? 24_000 : 200_000;
    const entrants: Entrant[] = [
      { label: 'sluice', contender: 'sluice', effects },
      { label: 'sluice, capped', contender: 'sluice', effects, isCapped: true },
      { label: 'graphile-worker', contender: 'graphile-worker', effects },
      { label: 'pg-boss', contender: 'pg-boss', effects },
      { label: 'document', contender: 'document', effects: effects / 5 },
    ];
    const rates = new Map<string, number[]>(entrants.map(({ label }) => [label, []]));
    for (const _round of bench.rounds({ quick: 2, full: 5 })) {
      for (const entrant of entrants) {
        const perSecond = await runOnce(bench, entrant);
        rates.get(entrant.label)!.push(perSecond);
        bench.progress(`${entrant.label} ${Math.round(perSecond)}/s`);
      }
    }
    const samples = new Map([...rates].map(([label, values]) => [label, summarise(values)]));
    const of = (label: string): Sample => samples.get(label)!;
    const peers = Object.fromEntries(
      ['graphile-worker', 'pg-boss', 'document'].map((label) => [label, of(label)]),
    );
    const rival = fasterPeer(peers);
    const against = (sample: Sample, name: string, atLeast: number): Finding => ({
      name,
      unit: 'effects/s',
      sluice: sample,
      peers,
      ratio: sample.median / peers[rival]!.median,
      ratioOf: `sluice / ${rival}`,
      target: { atLeast },
    });
    return [
      against(of('sluice'), 'no caps set', 3),
      against(of('sluice, capped'), `a cap of ${CAP} on every repo (the peers have no caps)`, 2),
    ];
  },
};

async function runOnce(bench: Bench, { contender, effects, isCapped }: Entrant): Promise<number> {
  const database = await bench.createDatabase(contender);
  const { url } = database;
  if (isCapped === true) await bench.run(setCapsTask, contender, { url, repos: REPOS, cap: CAP });
  await bench.run(loadTask, contender, { url, effects, repos: REPOS });
  await database.settle();
  const { perSecond } = await bench.run(drainTask, contender, {
    url,
    effects,
    warmUp: effects / 10,
    last: 0,
  });
  await database.drop();
  return perSecond;
}
