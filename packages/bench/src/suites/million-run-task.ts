import type { Task } from '../harness/task.ts';
import { Ledger } from '../measure/ledger.ts';
import { untilDrained } from './drain-task.ts';

export interface RunInput {
  url: string;
  effects: number;
  /** Effects done when the memory is looked at for the first time. */
  mark: number;
}

export interface RunOutput {
  /** Resident memory of the dispatcher's process, in bytes. */
  rssAtMark: number;
  rssAtEnd: number;
  perSecond: number;
}

/** Runs everything through one dispatcher, checks that each effect ran exactly once, and looks at its own memory. */
export const runTask: Task<RunInput, RunOutput> = {
  name: 'million-run',
  async run(contender, { url, effects, mark }, report) {
    const session = await contender.open(url);
    const ledger = new Ledger(effects);
    let startedAt = 0;
    let rssAtMark = 0;
    const worker = await session.work({
      slots: 100,
      purpose: 'throughput',
      run({ number }) {
        if (ledger.done === 0) startedAt = performance.now();
        ledger.record(number);
        if (ledger.done === mark) rssAtMark = process.memoryUsage.rss();
        if (ledger.done % mark === 0) report(ledger.done);
      },
    });
    await ledger.whole;
    await untilDrained(session);
    const rssAtEnd = process.memoryUsage.rss();
    const seconds = (performance.now() - startedAt) / 1_000;
    await worker.stop();
    worker.assertSettings();
    ledger.assertEachRanOnce();
    const kept = await session.countHistory();
    if (kept !== effects) throw new Error(`expected ${effects} effects in history, got ${kept}`);
    await session.close();
    return { rssAtMark, rssAtEnd, perSecond: effects / seconds };
  },
};
