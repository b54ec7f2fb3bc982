import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { withClient } from '../harness/bench-server.ts';
import type { Bench, Finding, Suite } from '../harness/suite.ts';
import { greatestDeviation, type Service } from '../measure/share-deviation.ts';
import { summarise } from '../measure/statistics.ts';
import { serveTask } from './shares-serve-task.ts';

const WEIGHTS = new Map([
  ['light', 1],
  ['middle', 2],
  ['heavy', 5],
]);
const LOOK_EVERY_MS = 50;
const EFFECTS = 5_000;
/** Where each claim is of one effect, in a quick run. */
const EFFECTS_QUICK = 1_500;
/** Of each repo. The heaviest is entitled to 3,125 of 5,000; the rest is for what is served beyond. */
const BACKLOG = 12_000;

interface Case {
  dispatchers: number;
  slots: number;
  effects: number;
}

/** Whether service follows weight, whatever the number of dispatchers and the size of their claims. */
export const shares: Suite = {
  name: 'shares',
  about: `repos of weight 1, 2 and 5, always with work: greatest distance from what their weight entitles them to, over ${EFFECTS} effects, by dispatchers with 1 slot and with 200`,
  tasks: [serveTask],
  async run(bench): Promise<Finding[]> {
    const cases: Case[] = [1, 3].flatMap((dispatchers) =>
      [1, 200].map((slots) => ({
        dispatchers,
        slots,
        effects: bench.isQuick && slots === 1 ? EFFECTS_QUICK : EFFECTS,
      })),
    );
    const results = new Map(cases.map((one) => [one, [] as { deviation: number; idlest: number }[]]));
    for (const _round of bench.rounds({ quick: 1, full: 3 })) {
      for (const one of cases) {
        const result = await measure(bench, one);
        results.get(one)!.push(result);
        bench.progress(`${nameOf(one)}: ${(100 * result.deviation).toFixed(2)} %`);
      }
    }
    return cases.map((one): Finding => {
      const percent = (what: 'deviation' | 'idlest') =>
        summarise(results.get(one)!.map((result) => 100 * result[what]));
      const deviation = percent('deviation');
      return {
        name: nameOf(one),
        unit: '%',
        sluice: deviation,
        peers: one.dispatchers > 1 ? { 'served by the idlest dispatcher': percent('idlest') } : {},
        ratio: deviation.max,
        ratioOf: 'greatest distance from an entitlement, in percent of it',
        target: { atMost: 3 },
      };
    });
  },
};

function nameOf({ dispatchers, slots, effects }: Case): string {
  const who = dispatchers === 1 ? '1 dispatcher' : `${dispatchers} dispatchers`;
  const batch = slots === 1 ? '1 effect' : `up to ${slots} effects`;
  return `${who}, ${batch} per claim, over ${effects} effects`;
}

async function measure(
  bench: Bench,
  { dispatchers, slots, effects }: Case,
): Promise<{ deviation: number; idlest: number }> {
  const { CHANNELS, SCHEMA } = await import('@sluice/db');
  const database = await bench.createDatabase('sluice');
  const { url } = database;
  const services = await withClient(url, async (client) => {
    const tasks = Array.from({ length: dispatchers }, () =>
      bench.start(serveTask, 'sluice', { url, slots }, () => undefined),
    );
    const ended = Promise.all(tasks.map((task) => task.output));
    // All begin at the same moment, told by one notification.
    await Promise.race([
      untilCount(client, `select from ${SCHEMA}.dispatcher where is_sleeping`, dispatchers),
      ended,
    ]);
    await fill(client, SCHEMA, CHANNELS.effects);
    await Promise.race([untilCount(client, `select from ${SCHEMA}.effect_history`, effects), ended]);
    for (const task of tasks) task.stop();
    await ended;
    await assertBacklog(client, SCHEMA);
    return await readServices(client, SCHEMA);
  });
  await database.drop();
  const counts = new Map<string, number>();
  for (const { claimant } of services) counts.set(claimant, (counts.get(claimant) ?? 0) + 1);
  const least = counts.size < dispatchers ? 0 : Math.min(...counts.values());
  return { deviation: greatestDeviation(services, WEIGHTS, effects), idlest: least / services.length };
}

async function fill(client: pg.Client, schema: string, channel: string): Promise<void> {
  const repos = [...WEIGHTS.keys()];
  await client.query('begin');
  await client.query(
    `insert into ${schema}.repo (repo_id, weight, cap) select *, 100000 from unnest($1::text[], $2::int[])`,
    [repos, [...WEIGHTS.values()]],
  );
  await client.query(
    `insert into ${schema}.effect_queue (repo_id, payload)
     select repo, '{}' from generate_series(1, $1) n, unnest($2::text[]) repo`,
    [BACKLOG, repos],
  );
  await client.query(
    `select pg_notify($1, min(effect_id) || ' ' || repo_id) from ${schema}.effect_queue group by repo_id`,
    [channel],
  );
  await client.query('commit');
  await client.query('analyze');
}

async function untilCount(client: pg.Client, query: string, atLeast: number): Promise<void> {
  for (;;) {
    const { rows } = await client.query<{ found: number }>(
      `select count(*)::int as found from (${query}) as found`,
    );
    if (rows[0]!.found >= atLeast) return;
    await sleep(LOOK_EVERY_MS);
  }
}

/** A repo that ran out of work in the end was not entitled to its share throughout. */
async function assertBacklog(client: pg.Client, schema: string): Promise<void> {
  const { rows } = await client.query<{ repo_id: string }>(
    `select distinct repo_id from ${schema}.effect_queue`,
  );
  if (rows.length !== WEIGHTS.size)
    throw new Error(`expected work left for ${WEIGHTS.size} repos, got it for ${rows.length}`);
}

async function readServices(client: pg.Client, schema: string): Promise<(Service & { claimant: string })[]> {
  const { rows } = await client.query<Service & { claimant: string }>(
    `select repo_id as repo, claimant, claimant || claimed_at::text as claim
       from ${schema}.effect_history order by claim_number`,
  );
  return rows;
}
