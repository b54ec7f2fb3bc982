import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { withClient } from '../harness/bench-server.ts';
import type { Bench, Finding, Suite } from '../harness/suite.ts';
import { assertShown, assertStored } from '../git/assert-landed.ts';
import { startHttpBackend, startPusher, type GitServer } from '../git/git-server.ts';
import { pushAll } from '../git/push-load.ts';
import { DEFINITION_REF, makePushSource, type PushSource } from '../git/push-source.ts';
import { processorSeconds } from '../measure/processor-time.ts';
import { percentile, summarise } from '../measure/statistics.ts';
import { repoNames } from './repo-names.ts';

const REPOS = 50;
const CLIENTS = 4;
/** Pushes to each repository in a round. */
const PUSHES = { quick: 1, full: 4 };
const ROUNDS = { quick: 3, full: 6 };

/** Fifty repositories of one server. */
interface Lane {
  name: string;
  server: GitServer;
  source: PushSource;
  repos: readonly string[];
  /** Their URLs. */
  remotes: readonly string[];
  hasEffects: boolean;
  rates: number[];
  /** Processor time for each push, in ms: client, server and database together. */
  costs: number[];
  tookMs: number[];
}

/** How much slower a push is than to bare git: the price of the database, the record and the effects. */
export const push: Suite = {
  name: 'push',
  about: `${CLIENTS} clients push one commit at a time to ${REPOS} repositories by stock git over HTTP; git http-backend has no hooks`,
  tasks: [],
  async run(bench): Promise<Finding[]> {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-push-'));
    try {
      return await runIn(folder, bench);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  },
};

async function runIn(folder: string, bench: Bench): Promise<Finding[]> {
  const pushes = bench.isQuick ? PUSHES.quick : PUSHES.full;
  const most = bench.isQuick ? ROUNDS.quick : ROUNDS.full;
  const database = await bench.createDatabase('sluice');
  const source = await makePushSource(join(folder, 'source'), 1 + pushes * most);
  await using backend = await startHttpBackend(join(folder, 'http-backend'));
  await using pusher = await startPusher(join(folder, 'pusher'), database.url);
  const lane = (name: string, server: GitServer, hasEffects: boolean): Lane => {
    const repos = repoNames(hasEffects ? 'effects' : 'plain', REPOS);
    const remotes = repos.map((repo) => `${server.url}/${repo}.git`);
    return { name, server, source, repos, remotes, hasEffects, rates: [], costs: [], tookMs: [] };
  };
  const peer = lane('git http-backend', backend, false);
  const plain = lane('sluice', pusher, false);
  const effects = lane('sluice, one effect for each push', pusher, true);
  const lanes = [peer, plain, effects];
  for (const one of lanes) await fill(one);
  let done = 1;
  for (const _round of bench.rounds(ROUNDS)) {
    for (const one of lanes) {
      await measure(one, { from: done, to: done + pushes });
      const told = [
        `${one.rates.at(-1)!.toFixed(1)}/s`,
        `${one.costs.at(-1)?.toFixed(1)} ms of processor time`,
      ];
      bench.progress(`${one.name} ${told.join(', ')}`);
    }
    done += pushes;
  }
  const commit = source.commits[done - 1]!;
  await assertShown(
    lanes.flatMap(({ remotes }) => remotes),
    commit,
  );
  await assertStored(join(folder, 'http-backend'), REPOS, commit);
  await assertStored(join(folder, 'pusher', 'repos'), 2 * REPOS, commit);
  // Here and not above: the processes of other contenders load no part of Sluice.
  const { SCHEMA } = await import('@sluice/db');
  await withClient(database.url, async (client) => {
    const { rows } = await client.query<Record<string, number>>(countsIn(SCHEMA), [commit]);
    const expected = { refs: 2 * REPOS, pushes: 2 * REPOS * done, effects: REPOS * done };
    if (JSON.stringify(rows[0]) !== JSON.stringify(expected))
      throw new Error(`expected ${JSON.stringify(expected)} in the database, got ${JSON.stringify(rows[0])}`);
  });
  return [...compare(plain, peer, 'no effects'), ...compare(effects, peer, 'one effect for each push')];
}

/** What the pushes must have left behind. */
const countsIn = (schema: string): string => `
  select (select count(*)::int from ${schema}.ref where name = 'refs/heads/main' and oid = $1) as refs,
         (select count(*)::int from ${schema}.op_record) as pushes,
         (select count(*)::int from ${schema}.effect_queue) as effects`;

/** Makes the repositories, with a first commit and, where there are to be effects, the definition of one. */
async function fill({ server, repos, remotes, hasEffects, source }: Lane): Promise<void> {
  await Promise.all(repos.map((repo) => server.prepare(repo)));
  const alongside = hasEffects ? [`${source.definition}:${DEFINITION_REF}`] : [];
  await pushAll({ source, remotes, from: 0, to: 1, clients: CLIENTS, alongside });
}

async function measure(lane: Lane, range: { from: number; to: number }): Promise<void> {
  const { source, remotes } = lane;
  const spent = processorSeconds(process.pid);
  const startedAt = performance.now();
  lane.tookMs.push(...(await pushAll({ source, remotes, ...range, clients: CLIENTS })));
  const pushes = (range.to - range.from) * remotes.length;
  lane.rates.push((1_000 * pushes) / (performance.now() - startedAt));
  if (spent !== undefined) lane.costs.push((1_000 * (processorSeconds(process.pid)! - spent)) / pushes);
}

function compare(sluice: Lane, peer: Lane, what: string): Finding[] {
  const finding = (
    name: string,
    unit: string,
    valuesOf: (lane: Lane) => number[],
    target: Finding['target'],
  ): Finding => {
    const [ours, theirs] = [summarise(valuesOf(sluice)), summarise(valuesOf(peer))];
    return {
      name: `${what}: ${name}`,
      unit,
      sluice: ours,
      peers: { [peer.name]: theirs },
      ratio: ours.median / theirs.median,
      ratioOf: `sluice / ${peer.name}`,
      ...(target === undefined ? {} : { target }),
    };
  };
  const findings = [
    finding('pushes', 'pushes/s', (lane) => lane.rates, { atLeast: 0.7 }),
    finding('p99 of all rounds', 'ms', (lane) => [percentile(lane.tookMs, 99)], { atMost: 2 }),
    finding('p50 of all rounds', 'ms', (lane) => [percentile(lane.tookMs, 50)], undefined),
  ];
  if (peer.costs.length === 0) return findings;
  return [...findings, finding('processor time of a push', 'ms', (lane) => lane.costs, undefined)];
}
