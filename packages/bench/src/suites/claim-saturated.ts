import { openCapped, openClaims } from '../contenders/contender.ts';
import type { Bench, Finding, Suite } from '../harness/suite.ts';
import type { Task } from '../harness/task.ts';
import { percentile, summarise } from '../measure/statistics.ts';
import { repoNames } from './repo-names.ts';

const REPOS = 10_000;
const OPEN = repoNames('open', 10);
const OTHERS = repoNames('other', REPOS - OPEN.length);
const SLOTS = 10;
/** Waiting effects of each of the repos that may be at their cap. */
const BEHIND = 3;

interface ServeInput {
  url: string;
  effects: number;
  warmUp: number;
  areOthersSaturated: boolean;
}

interface ServeOutput {
  /** Time in statements that claim, for ten effects. */
  claimMsPerTen: number;
  perSecond: number;
}

const serveTask: Task<ServeInput, ServeOutput> = {
  name: 'claim-saturated-serve',
  async run(contender, { url, effects, warmUp, areOthersSaturated }) {
    const session = openCapped(contender, url);
    const total = effects + warmUp;
    await session.load(OTHERS, BEHIND, 0);
    await session.load(OPEN, 2 * Math.ceil(total / OPEN.length), OTHERS.length * BEHIND);
    await session.setCaps([...OPEN, ...OTHERS], 100);
    if (areOthersSaturated) await session.saturate(OTHERS);
    const { promise: served, resolve } = Promise.withResolvers<void>();
    let count = 0;
    let warm = { at: 0, claimMs: 0 };
    let end = warm;
    const worker = await session.work({
      slots: SLOTS,
      purpose: 'latency',
      run() {
        count += 1;
        if (count === warmUp) warm = { at: performance.now(), claimMs: session.claimMs() };
        if (count === total) {
          end = { at: performance.now(), claimMs: session.claimMs() };
          resolve();
        }
      },
    });
    await served;
    await worker.stop();
    worker.assertSettings();
    await session.close();
    return {
      claimMsPerTen: (10 * (end.claimMs - warm.claimMs)) / effects,
      perSecond: (1_000 * effects) / (end.at - warm.at),
    };
  },
};

const excludeTask: Task<{ url: string; rounds: number; areOthersSaturated: boolean }, number> = {
  name: 'claim-saturated-exclude',
  async run(contender, { url, rounds, areOthersSaturated }) {
    const queue = openClaims(contender, url);
    await queue.load(OTHERS, BEHIND);
    await queue.load(OPEN, 2 * rounds);
    if (areOthersSaturated) await queue.saturate(OTHERS);
    const times: number[] = [];
    for (let round = 0; round < rounds; round += 1)
      times.push(await queue.claimTen(OPEN, areOthersSaturated ? OTHERS : []));
    await queue.close();
    return percentile(times.slice(rounds >> 2), 50);
  },
};

/** What it costs that nearly all repos with work are at their cap. */
export const claimSaturated: Suite = {
  name: 'claim-saturated',
  about:
    '10,000 repos with work, 9,990 at their cap, a dispatcher with 10 slots; milliseconds in claims for 10 effects',
  tasks: [serveTask, excludeTask],
  async run(bench): Promise<Finding[]> {
    const results = { free: [] as ServeOutput[], saturated: [] as ServeOutput[] };
    const plain = { free: [] as number[], saturated: [] as number[] };
    for (const _round of bench.rounds({ quick: 2, full: 5 })) {
      for (const state of ['free', 'saturated'] as const) {
        const output = await serve(bench, state === 'saturated');
        results[state].push(output);
        plain[state].push(await exclude(bench, state === 'saturated'));
        bench.progress(
          `${state}: sluice ${output.claimMsPerTen.toFixed(2)} ms for 10, ` +
            `${Math.round(output.perSecond)} effects/s; document ${plain[state].at(-1)!.toFixed(2)} ms`,
        );
      }
    }
    const claim = (state: keyof typeof results) =>
      summarise(results[state].map((result) => result.claimMsPerTen));
    const rate = (state: keyof typeof results) => summarise(results[state].map((result) => result.perSecond));
    return [
      {
        name: 'claims, with 9,990 of 10,000 repos at their cap',
        unit: 'ms',
        sluice: claim('saturated'),
        peers: { document: summarise(plain.saturated), 'sluice, none at its cap': claim('free') },
        ratio: claim('saturated').median / claim('free').median,
        ratioOf: 'sluice with 9,990 at their cap / with none',
        target: { atMost: 1.5 },
      },
      {
        name: 'service in the same run',
        unit: 'effects/s',
        sluice: rate('saturated'),
        peers: { 'sluice, none at its cap': rate('free') },
        ratio: rate('free').median / rate('saturated').median,
        ratioOf: 'sluice with none at its cap / with 9,990',
      },
    ];
  },
};

async function serve(bench: Bench, areOthersSaturated: boolean): Promise<ServeOutput> {
  const database = await bench.createDatabase('sluice');
  const sizes = bench.isQuick ? { effects: 3_000, warmUp: 1_000 } : { effects: 20_000, warmUp: 5_000 };
  const output = await bench.run(serveTask, 'sluice', { url: database.url, areOthersSaturated, ...sizes });
  await database.drop();
  return output;
}

async function exclude(bench: Bench, areOthersSaturated: boolean): Promise<number> {
  const database = await bench.createDatabase('document');
  const output = await bench.run(excludeTask, 'document', {
    url: database.url,
    rounds: 40,
    areOthersSaturated,
  });
  await database.drop();
  return output;
}
