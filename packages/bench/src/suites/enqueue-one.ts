import type { ContenderName, Session } from '../contenders/contender.ts';
import type { Finding, Suite } from '../harness/suite.ts';
import type { Task } from '../harness/task.ts';
import { measureInTurns } from './measure-in-turns.ts';
import { fasterPeer } from './faster-peer.ts';
import { jobOf } from './load-task.ts';
import { repoNames } from './repo-names.ts';

const CALLERS = 10;
const REPOS = 1_000;
const PEERS: readonly ContenderName[] = ['graphile-worker', 'pg-boss', 'document'];

const enqueueOneTask: Task<{ url: string; ms: number; warmUpMs: number }, number> = {
  name: 'enqueue-one',
  async run(contender, { url, ms, warmUpMs }) {
    const session = await contender.open(url);
    await callFor(session, warmUpMs);
    const { calls, elapsedMs } = await callFor(session, ms);
    await session.close();
    return (1_000 * calls) / elapsedMs;
  },
};

/** How fast single effects are accepted, each by a call of its own. */
export const enqueueOne: Suite = {
  name: 'enqueue-one',
  about: `${CALLERS} concurrent callers enqueue one effect at a time, each durable before the next; nobody waits for work`,
  tasks: [enqueueOneTask],
  async run(bench): Promise<Finding[]> {
    const input = bench.isQuick ? { ms: 1_500, warmUpMs: 500 } : { ms: 10_000, warmUpMs: 2_000 };
    const samples = await measureInTurns(bench, {
      contenders: ['sluice', ...PEERS],
      rounds: { quick: 3, full: 5 },
      unit: 'effects/s',
      measure: (contender, url) => bench.run(enqueueOneTask, contender, { url, ...input }),
    });
    const { sluice, document, ...libraries } = samples;
    const rival = fasterPeer(libraries);
    return [
      {
        name: 'one by one',
        unit: 'effects/s',
        sluice: sluice!,
        peers: { ...libraries, document: document! },
        ratio: sluice!.median / libraries[rival]!.median,
        ratioOf: `sluice / ${rival}`,
        target: { atLeast: 4 },
      },
    ];
  },
};

async function callFor(session: Session, ms: number): Promise<{ calls: number; elapsedMs: number }> {
  const repos = repoNames('repo', REPOS);
  const startedAt = performance.now();
  let calls = 0;
  const caller = async (): Promise<void> => {
    while (performance.now() - startedAt < ms) await session.enqueue(jobOf(repos, calls++));
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
  return { calls, elapsedMs: performance.now() - startedAt };
}
