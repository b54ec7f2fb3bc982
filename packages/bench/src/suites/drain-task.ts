import { setTimeout as sleep } from 'node:timers/promises';
import type { Session } from '../contenders/contender.ts';
import type { Task } from '../harness/task.ts';
import { Ledger } from '../measure/ledger.ts';

export interface DrainInput {
  url: string;
  /** All of them wait already. */
  effects: number;
  /** The first ones, which warm the process up and are not counted. */
  warmUp: number;
  /** The last ones, whose rate is told apart. */
  last: number;
}

export interface DrainOutput {
  /** From the last effect of the warm-up until every effect is closed in the database. */
  perSecond: number;
  lastPerSecond: number;
}

const LOOK_EVERY_MS = 5;
/** No contender needs as long as this for one look at an empty queue, or hangs. */
const SETTLE_MS_MAX = 30_000;

/** Runs everything that waits, as no-ops, and checks that each effect ran exactly once and is kept in history. */
export const drainTask: Task<DrainInput, DrainOutput> = {
  name: 'drain',
  async run(contender, { url, effects, warmUp, last }) {
    const session = await contender.open(url);
    const ledger = new Ledger(effects);
    let warmAt = 0;
    let lastAt = 0;
    const worker = await session.work({
      slots: 100,
      purpose: 'throughput',
      run({ number }) {
        ledger.record(number);
        if (ledger.done === warmUp) warmAt = performance.now();
        if (ledger.done === effects - last) lastAt = performance.now();
      },
    });
    await ledger.whole;
    await untilDrained(session);
    const endedAt = performance.now();
    await worker.stop();
    worker.assertSettings();
    ledger.assertEachRanOnce();
    await assertHistory(session, effects);
    await session.close();
    return {
      perSecond: (1_000 * (effects - warmUp)) / (endedAt - warmAt),
      lastPerSecond: (1_000 * last) / (endedAt - lastAt),
    };
  },
};

/** Resolves when no effect is unfinished in the database. */
export async function untilDrained(session: Session): Promise<void> {
  const giveUpAt = performance.now() + SETTLE_MS_MAX;
  while (!(await session.isDrained())) {
    if (performance.now() > giveUpAt) throw new Error('expected all effects closed, some still are not');
    await sleep(LOOK_EVERY_MS);
  }
}

async function assertHistory(session: Session, effects: number): Promise<void> {
  const kept = await session.countHistory();
  if (kept !== null && kept !== effects)
    throw new Error(`expected ${effects} effects in history, got ${kept}`);
}
