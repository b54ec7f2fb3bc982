import { openClaims } from '../contenders/contender.ts';
import type { Finding, Suite } from '../harness/suite.ts';
import type { Task } from '../harness/task.ts';
import { percentile, summarise } from '../measure/statistics.ts';
import { repoNames } from './repo-names.ts';

const BUSY = ['busy'];
const OPEN = repoNames('open', 10);
const SIZES = [1_000, 10_000, 100_000, 1_000_000];
const QUICK_SIZES = [1_000, 1_000_000];

interface BacklogInput {
  /** A database for each backlog, in the same order. */
  urls: string[];
  sizes: number[];
  rounds: number;
  warmUp: number;
}

/** Medians, one for each backlog; `sweepMs` is null where there is no sweep. */
interface BacklogOutput {
  claimMs: number[];
  sweepMs: number[] | null;
}

const claimBacklogTask: Task<BacklogInput, BacklogOutput> = {
  name: 'claim-backlog',
  async run(contender, { urls, sizes, rounds, warmUp }, report) {
    const queues = urls.map((url) => openClaims(contender, url));
    for (const [index, queue] of queues.entries()) {
      await queue.load(BUSY, sizes[index]!);
      await queue.load(OPEN, rounds + warmUp);
      await queue.saturate(BUSY);
      report(`${sizes[index]} rows loaded`);
    }
    const claims = sizes.map((): number[] => []);
    const sweeps = sizes.map((): number[] => []);
    for (let round = 0; round < rounds + warmUp; round += 1) {
      for (const [index, queue] of queues.entries()) {
        const ms = await queue.claimTen(OPEN, BUSY);
        if (round >= warmUp) claims[index]!.push(ms);
      }
      for (const [index, queue] of queues.entries()) {
        const ms = await queue.sweep?.();
        if (ms !== undefined && round >= warmUp) sweeps[index]!.push(ms);
      }
    }
    await Promise.all(queues.map((queue) => queue.close()));
    const median = (list: number[]) => percentile(list, 50);
    return { claimMs: claims.map(median), sweepMs: sweeps[0]!.length > 0 ? sweeps.map(median) : null };
  },
};

/** What a claim costs while one repo at its cap has a long backlog, older than everything else. */
export const claimBacklog: Suite = {
  name: 'claim-backlog',
  about:
    'milliseconds (p50) to claim 10 effects of 10 repos behind a repo at its cap with 1,000 to 1,000,000 waiting',
  tasks: [claimBacklogTask],
  async run(bench): Promise<Finding[]> {
    const sizes = bench.isQuick ? QUICK_SIZES : SIZES;
    const results: Record<string, BacklogOutput[]> = { sluice: [], document: [] };
    for (const _round of bench.rounds({ quick: 1, full: 3 })) {
      for (const contender of ['sluice', 'document'] as const) {
        const databases = [];
        for (const _ of sizes) databases.push(await bench.createDatabase(contender));
        const rounds = contender === 'sluice' ? 200 : 40;
        const running = bench.start(
          claimBacklogTask,
          contender,
          { urls: databases.map(({ url }) => url), sizes, rounds, warmUp: rounds / 4 },
          (text) => bench.progress(`${contender}: ${String(text)}`),
        );
        const output = await running.output;
        results[contender]!.push(output);
        for (const database of databases) await database.drop();
        const shown = output.claimMs.map((ms, index) => `${sizes[index]}: ${ms.toFixed(2)} ms`);
        bench.progress(`${contender} ${shown.join(', ')}`);
      }
    }
    const at = (contender: string, index: number, what: 'claimMs' | 'sweepMs') =>
      summarise(results[contender]!.map((result) => result[what]?.at(index) ?? Number.NaN));
    const growth = (contender: string, what: 'claimMs' | 'sweepMs') =>
      at(contender, -1, what).median / at(contender, 0, what).median;
    const ratioOf = 'sluice at 1,000,000 / sluice at 1,000';
    return [
      {
        name: 'claim behind 1,000,000 waiting',
        unit: 'ms',
        sluice: at('sluice', -1, 'claimMs'),
        peers: { document: at('document', -1, 'claimMs') },
        ratio: growth('sluice', 'claimMs'),
        ratioOf,
        target: { atMost: 1.3 },
      },
      {
        name: 'sweep over 1,000,000 waiting',
        unit: 'ms',
        sluice: at('sluice', -1, 'sweepMs'),
        peers: {},
        ratio: growth('sluice', 'sweepMs'),
        ratioOf,
      },
      {
        name: 'for comparison: growth of the plain table',
        unit: 'ms',
        sluice: at('sluice', 0, 'claimMs'),
        peers: { document: at('document', 0, 'claimMs') },
        ratio: growth('document', 'claimMs'),
        ratioOf: 'document at 1,000,000 / document at 1,000',
      },
    ];
  },
};
