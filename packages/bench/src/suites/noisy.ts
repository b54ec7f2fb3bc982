import type { ContenderName } from '../contenders/contender.ts';
import type { Bench, Finding, Suite } from '../harness/suite.ts';
import { summarise } from '../measure/statistics.ts';
import { sharesTask } from './noisy-shares-task.ts';
import { waitsTask } from './noisy-waits-task.ts';

const LIGHT_REPOS = 200;
const SLOTS = 16;
const ARRIVALS_PER_SECOND = 200;

/** What one repo with a million waiting effects costs the others. */
export const noisy: Suite = {
  name: 'noisy',
  about: `one repo with a huge backlog, ${LIGHT_REPOS} light repos with ${ARRIVALS_PER_SECOND} effects per second in all; milliseconds from call to start`,
  tasks: [waitsTask, sharesTask],
  async run(bench): Promise<Finding[]> {
    const noise = bench.isQuick ? 200_000 : 1_000_000;
    // A light effect waits for all of it: the peers' wait grows with it, and a small one tells enough.
    const noiseOfPeers = bench.isQuick ? 4_000 : 50_000;
    const waits = new Map<string, { p50: number; p99: number }[]>();
    const shares: number[] = [];
    const measure = async (label: string, contender: ContenderName, backlog: number): Promise<void> => {
      const found = await measureWaits(bench, contender, backlog);
      waits.set(label, [...(waits.get(label) ?? []), found]);
      bench.progress(
        `${label}: light repos wait p50 ${found.p50.toFixed(1)} ms, p99 ${found.p99.toFixed(1)} ms`,
      );
    };
    for (const _round of bench.rounds({ quick: 1, full: 3 })) {
      await measure('sluice, quiet', 'sluice', 0);
      await measure('sluice', 'sluice', noise);
      await measure('graphile-worker', 'graphile-worker', noiseOfPeers);
      await measure('document', 'document', noiseOfPeers);
      const database = await bench.createDatabase('sluice');
      const input = { url: database.url, lightRepos: LIGHT_REPOS, effectsOfEach: 40, slots: SLOTS, noise };
      shares.push(await bench.run(sharesTask, 'sluice', input));
      await database.drop();
      bench.progress(`jain index among equals ${shares.at(-1)!.toFixed(4)}`);
    }
    const sample = (label: string, percent: 'p50' | 'p99') =>
      summarise(waits.get(label)!.map((wait) => wait[percent]));
    const index = summarise(shares);
    const compare = (percent: 'p50' | 'p99'): Finding => ({
      name: `${percent} wait of a light repo beside ${noise} waiting (peers: ${noiseOfPeers})`,
      unit: 'ms',
      sluice: sample('sluice', percent),
      peers: {
        'sluice, quiet': sample('sluice, quiet', percent),
        'graphile-worker': sample('graphile-worker', percent),
        document: sample('document', percent),
      },
      ratio: sample('sluice', percent).median / sample('sluice, quiet', percent).median,
      ratioOf: 'sluice with the noise / without',
      ...(percent === 'p99' ? { target: { atMost: 2 } } : {}),
    });
    return [
      compare('p99'),
      compare('p50'),
      {
        name: "Jain's index among 200 equal repos with work",
        unit: '',
        sluice: index,
        peers: {},
        ratio: index.median,
        ratioOf: 'the index itself; 1 is wholly equal',
        target: { atLeast: 0.95 },
      },
    ];
  },
};

async function measureWaits(bench: Bench, contender: ContenderName, noise: number) {
  const database = await bench.createDatabase(contender);
  const waits = await bench.run(waitsTask, contender, {
    url: database.url,
    lightRepos: LIGHT_REPOS,
    arrivals: bench.isQuick ? 800 : 6_000,
    arrivalsPerSecond: ARRIVALS_PER_SECOND,
    slots: SLOTS,
    noise,
  });
  await database.drop();
  return waits;
}
