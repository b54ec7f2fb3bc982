import { setTimeout as sleep } from 'node:timers/promises';
import type { ContenderName } from '../contenders/contender.ts';
import type { Bench, Finding, Suite } from '../harness/suite.ts';
import type { Task } from '../harness/task.ts';
import { Ledger } from '../measure/ledger.ts';
import { percentile, summarise } from '../measure/statistics.ts';
import { untilDrained } from './drain-task.ts';
import { jobOf } from './load-task.ts';
import { repoNames } from './repo-names.ts';

const SLOTS = 10;
const REPOS = 100;
const CONTENDERS: readonly ContenderName[] = ['sluice', 'graphile-worker', 'pg-boss', 'document'];

const latencyTask: Task<{ url: string; effects: number; warmUp: number }, number[]> = {
  name: 'latency',
  async run(contender, { url, effects, warmUp }) {
    const session = await contender.open(url);
    const total = warmUp + effects;
    const ledger = new Ledger(total);
    const enqueuedAt = new Float64Array(total);
    const waitedMs = new Float64Array(total);
    let next = Promise.withResolvers<void>();
    const worker = await session.work({
      slots: SLOTS,
      purpose: 'latency',
      run({ number }) {
        waitedMs[number] = performance.now() - enqueuedAt[number]!;
        ledger.record(number);
        next.resolve();
      },
    });
    const repos = repoNames('repo', REPOS);
    for (let number = 0; number < total; number += 1) {
      // Time to come to rest, of no regular length, so that no timer of a contender keeps step with it.
      await sleep(15 + Math.random() * 20);
      next = Promise.withResolvers();
      enqueuedAt[number] = performance.now();
      await session.enqueue(jobOf(repos, number));
      await next.promise;
    }
    await untilDrained(session);
    await worker.stop();
    worker.assertSettings();
    ledger.assertEachRanOnce();
    await session.close();
    return [...waitedMs.subarray(warmUp)];
  },
};

/** How soon an effect starts when there is nothing else to do. */
export const latency: Suite = {
  name: 'latency',
  about:
    'one effect every 25 ms or so, enqueued and run in one process; milliseconds from the call to the start',
  tasks: [latencyTask],
  async run(bench) {
    const waits = new Map<string, number[][]>(CONTENDERS.map((name) => [name, []]));
    for (const _round of bench.rounds({ quick: 2, full: 5 })) {
      for (const contender of CONTENDERS) {
        const list = await measure(bench, contender);
        waits.get(contender)!.push(list);
        const [middle, rare] = [percentile(list, 50), percentile(list, 99)];
        bench.progress(`${contender} p50 ${middle.toFixed(2)} ms, p99 ${rare.toFixed(2)} ms`);
      }
    }
    return [50, 99].map((percent): Finding => {
      const sampleOf = (name: string) => summarise(waits.get(name)!.map((list) => percentile(list, percent)));
      const peers = Object.fromEntries(CONTENDERS.slice(1).map((name) => [name, sampleOf(name)]));
      const [best] = Object.entries(peers).sort(([, one], [, other]) => one.median - other.median);
      const sluice = sampleOf('sluice');
      return {
        name: `p${percent}`,
        unit: 'ms',
        sluice,
        peers,
        ratio: sluice.median / best![1].median,
        ratioOf: `sluice / ${best![0]}`,
        target: { atMost: 1 },
      };
    });
  },
};

async function measure(bench: Bench, contender: ContenderName): Promise<number[]> {
  const database = await bench.createDatabase(contender);
  const sizes = bench.isQuick ? { effects: 100, warmUp: 20 } : { effects: 1_000, warmUp: 100 };
  const waits = await bench.run(latencyTask, contender, { url: database.url, ...sizes });
  await database.drop();
  return waits;
}
