import { setTimeout as sleep } from 'node:timers/promises';
import type { Task } from '../harness/task.ts';
import { percentile } from '../measure/statistics.ts';
import { repoNames } from './repo-names.ts';

export interface WaitsInput {
  url: string;
  lightRepos: number;
  /** Effects of the light repos, one after the other. */
  arrivals: number;
  arrivalsPerSecond: number;
  slots: number;
  /** Effects of the noisy repo, enqueued before; their numbers follow those of the light ones. */
  noise: number;
}

/** How long one effect runs; it waits, as one that calls another machine does. */
const RUN_MS = 5;
const BATCH = 2_000;

/** Milliseconds that light repos wait at p50 and p99, while effects come at random moments. */
export const waitsTask: Task<WaitsInput, { p50: number; p99: number }> = {
  name: 'noisy-waits',
  async run(contender, input) {
    const { arrivals, arrivalsPerSecond, noise } = input;
    const session = await contender.open(input.url);
    for (let from = 0; from < noise; from += BATCH) {
      const length = Math.min(BATCH, noise - from);
      await session.enqueueMany(
        Array.from({ length }, (_, index) => ({ repo: 'noisy', number: arrivals + from + index })),
      );
    }
    const dueAt = new Float64Array(arrivals);
    const waitedMs = new Float64Array(arrivals).fill(-1);
    const { promise: allStarted, resolve } = Promise.withResolvers<void>();
    let started = 0;
    const worker = await session.work({
      slots: input.slots,
      purpose: 'latency',
      // The default of the dispatcher program.
      repoCap: 4,
      async run({ number }) {
        if (number < arrivals) {
          if (waitedMs[number] !== -1) throw new Error(`effect ${number} ran twice`);
          waitedMs[number] = performance.now() - dueAt[number]!;
          started += 1;
          if (started === arrivals) resolve();
        }
        await sleep(RUN_MS);
      },
    });
    const repos = repoNames('light', input.lightRepos);
    const calls: Promise<void>[] = [];
    let dueMs = performance.now() + 500;
    for (let number = 0; number < arrivals; number += 1) {
      // Exponential gaps: arrivals at random moments, however late the one before was served.
      dueMs += (-Math.log(1 - Math.random()) * 1_000) / arrivalsPerSecond;
      const gapMs = dueMs - performance.now();
      if (gapMs > 1) await sleep(gapMs);
      dueAt[number] = performance.now();
      calls.push(session.enqueue({ repo: repos[Math.floor(Math.random() * repos.length)]!, number }));
    }
    await Promise.all(calls);
    await allStarted;
    await worker.stop();
    worker.assertSettings();
    await session.close();
    // The first tenth warms the process up.
    const waits = [...waitedMs.subarray(Math.floor(arrivals / 10))];
    return { p50: percentile(waits, 50), p99: percentile(waits, 99) };
  },
};
