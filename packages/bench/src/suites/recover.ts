import type { Bench, Finding, Suite } from '../harness/suite.ts';
import type { Task } from '../harness/task.ts';
import { summarise } from '../measure/statistics.ts';
import { repoNames } from './repo-names.ts';

const SLOTS = 20;

/** Runs effects that never end, and reports each start. */
const holdTask: Task<{ url: string }, never> = {
  name: 'recover-hold',
  async run(contender, { url }, report) {
    const session = await contender.open(url);
    await session.enqueueMany(repoNames('repo', SLOTS).map((repo, number) => ({ repo, number })));
    await session.work({
      slots: SLOTS,
      purpose: 'latency',
      run: async ({ number }) => {
        report(number);
        await new Promise(() => undefined);
      },
    });
    return await new Promise<never>(() => undefined);
  },
};

/** Runs what it can get, and reports each start; `ready` when it stands by. Ends when it ran everything. */
const takeOverTask: Task<{ url: string; effects: number }, void> = {
  name: 'recover-take-over',
  async run(contender, { url, effects }, report) {
    const session = await contender.open(url);
    const { promise: allRan, resolve } = Promise.withResolvers<void>();
    const started = new Set<number>();
    const worker = await session.work({
      slots: SLOTS,
      purpose: 'latency',
      run({ number }) {
        if (started.has(number)) throw new Error(`effect ${number} ran twice after the crash`);
        started.add(number);
        report(number);
        if (started.size === effects) resolve();
      },
    });
    report('ready');
    await allRan;
    await worker.stop();
    worker.assertSettings();
    const kept = await session.countHistory();
    if (kept !== effects) throw new Error(`expected ${effects} effects in history, got ${kept}`);
    await session.close();
  },
};

/** How long the default of each peer is, asked of the peer itself; nobody waits for hours here. */
const peerDefaultTask: Task<{ url: string }, number> = {
  name: 'recover-default',
  async run(contender, { url }) {
    if (contender.recoverySeconds === undefined)
      throw new Error('expected a contender that names its default');
    return await contender.recoverySeconds(url);
  },
};

/** How long the effects of a dispatcher that was killed stand still. */
export const recover: Suite = {
  name: 'recover',
  about: `kill -9 of a dispatcher that runs ${SLOTS} effects, default settings; seconds until another one has restarted all`,
  tasks: [holdTask, takeOverTask, peerDefaultTask],
  async run(bench): Promise<Finding[]> {
    const seconds: number[] = [];
    for (const _round of bench.rounds({ quick: 1, full: 3 })) {
      seconds.push(await killOnce(bench));
      bench.progress(`all restarted after ${seconds.at(-1)!.toFixed(1)} s`);
    }
    const peers = {
      'graphile-worker': summarise([await peerDefault(bench, 'graphile-worker')]),
      'pg-boss': summarise([await peerDefault(bench, 'pg-boss')]),
    };
    const sluice = summarise(seconds);
    return [
      {
        name: 'all effects of a killed dispatcher restarted (peers: their default, not run)',
        unit: 's',
        sluice,
        peers,
        // The worst of the runs: a promise about recovery is one about every crash.
        ratio: sluice.max / 30,
        ratioOf: 'slowest run / 30 s',
        target: { atMost: 1 },
      },
    ];
  },
};

async function killOnce(bench: Bench): Promise<number> {
  const database = await bench.createDatabase('sluice');
  const { url } = database;
  const held = Promise.withResolvers<void>();
  const ready = Promise.withResolvers<void>();
  const holding = new Set<unknown>();
  const holder = bench.start(holdTask, 'sluice', { url }, (number) => {
    holding.add(number);
    if (holding.size === SLOTS) held.resolve();
  });
  const gone = holder.output.then(
    () => undefined,
    (error: unknown) => held.reject(error instanceof Error ? error : new Error(String(error))),
  );
  await held.promise;
  let lastAt = 0;
  const other = bench.start(takeOverTask, 'sluice', { url, effects: SLOTS }, (news) => {
    if (news === 'ready') ready.resolve();
    else lastAt = performance.now();
  });
  await Promise.race([ready.promise, other.output]);
  holder.kill();
  const killedAt = performance.now();
  bench.progress(`killed a dispatcher that ran ${SLOTS} effects; waiting for the other one`);
  await gone;
  await other.output;
  await database.drop();
  return (lastAt - killedAt) / 1_000;
}

async function peerDefault(bench: Bench, contender: 'graphile-worker' | 'pg-boss'): Promise<number> {
  const database = await bench.createDatabase(contender);
  const seconds = await bench.run(peerDefaultTask, contender, { url: database.url });
  await database.drop();
  return seconds;
}
