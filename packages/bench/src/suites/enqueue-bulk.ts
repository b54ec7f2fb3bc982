import type { ContenderName, Session } from '../contenders/contender.ts';
import type { Finding, Suite } from '../harness/suite.ts';
import type { Task } from '../harness/task.ts';
import { fasterPeer } from './faster-peer.ts';
import { jobOf } from './load-task.ts';
import { measureInTurns } from './measure-in-turns.ts';
import { repoNames } from './repo-names.ts';

const BATCH = 1_000;
const CALLERS = 2;
const REPOS = 1_000;
const PEERS: readonly ContenderName[] = ['graphile-worker', 'pg-boss', 'document'];

const enqueueBulkTask: Task<{ url: string; effects: number; warmUp: number }, number> = {
  name: 'enqueue-bulk',
  async run(contender, { url, effects, warmUp }) {
    const session = await contender.open(url);
    await enqueue(session, warmUp);
    const startedAt = performance.now();
    await enqueue(session, effects);
    const elapsedMs = performance.now() - startedAt;
    await session.close();
    return (1_000 * effects) / elapsedMs;
  },
};

/** How fast many effects are accepted at once. */
export const enqueueBulk: Suite = {
  name: 'enqueue-bulk',
  about: `${CALLERS} callers enqueue ${BATCH} effects at a time, each batch durable before the next`,
  tasks: [enqueueBulkTask],
  async run(bench): Promise<Finding[]> {
    const input = bench.isQuick ? { effects: 40_000, warmUp: 10_000 } : { effects: 200_000, warmUp: 20_000 };
    const samples = await measureInTurns(bench, {
      contenders: ['sluice', ...PEERS],
      rounds: { quick: 3, full: 5 },
      unit: 'effects/s',
      measure: (contender, url) => bench.run(enqueueBulkTask, contender, { url, ...input }),
    });
    const { sluice, document, ...libraries } = samples;
    const rival = fasterPeer(libraries);
    return [
      {
        name: `batches of ${BATCH}`,
        unit: 'effects/s',
        sluice: sluice!,
        peers: { ...libraries, document: document! },
        ratio: sluice!.median / libraries[rival]!.median,
        ratioOf: `sluice / ${rival}`,
        target: { atLeast: 2.5 },
      },
    ];
  },
};

async function enqueue(session: Session, effects: number): Promise<void> {
  const repos = repoNames('repo', REPOS);
  let next = 0;
  const caller = async (): Promise<void> => {
    while (next < effects) {
      const from = next;
      next += BATCH;
      await session.enqueueMany(Array.from({ length: BATCH }, (_, index) => jobOf(repos, from + index)));
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
}
