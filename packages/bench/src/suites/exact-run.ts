import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { withClient } from '../harness/bench-server.ts';
import type { Bench } from '../harness/suite.ts';
import { audit, type FinishedRow } from '../measure/conservation.ts';
import { dispatchTask, type DispatchNews } from './exact-dispatch-task.ts';
import { feedTask } from './exact-feed-task.ts';
import type { ExactRun } from './exact-findings.ts';
import { Fleet } from './exact-fleet.ts';
import { News } from './exact-news.ts';
import { sampleTask } from './exact-sample-task.ts';
import { repoNames } from './repo-names.ts';

const CAPS = new Map(repoNames('repo', 200).map((repo, index) => [repo, 1 + (index % 5)]));
const DISPATCHERS = 4;
const SLOTS = 16;
const LEASE_MS = 2_000;
const KILL_EVERY_MS = 3_000;
const FREEZE_AFTER_MS = 1_500;
const FREEZE_MS_MAX = 3 * LEASE_MS;
const LOOK_EVERY_MS = 10;
const DRAIN_MS_MAX = 120_000;

/** Feeds the dispatchers for so long while it kills and freezes them, lets them finish, and takes stock. */
export async function runExact(
  bench: Bench,
  { ms, globalCap }: { ms: number; globalCap: number | null },
): Promise<ExactRun> {
  const database = await bench.createDatabase('sluice');
  const { url } = database;
  await withClient(url, (client) => setCaps(client, globalCap));
  const news = new News();
  const fleet = new Fleet(DISPATCHERS, (onRegistered) =>
    bench.start(dispatchTask, 'sluice', { url, slots: SLOTS, leaseMs: LEASE_MS }, (told) => {
      const one = told as DispatchNews;
      news.note(one);
      if (one.what === 'registered') onRegistered(one.dispatcherId);
    }),
  );
  await fleet.whole();
  bench.progress(`${DISPATCHERS} dispatchers run`);
  const sampler = bench.start(sampleTask, 'sluice', { url }, () => undefined);
  const feedInput = { url, caps: CAPS, changeAfterMs: ms / 2 };
  const fed = Promise.withResolvers<unknown>();
  const feed = bench.start(feedTask, 'sluice', feedInput, fed.resolve);
  await Promise.race([fed.promise, feed.output]);
  const disturbed = withClient(url, (client) => disturb(bench, fleet, { ms, client }));
  await Promise.race([disturbed, fleet.failed, feed.output, sampler.output]);
  feed.stop();
  const { expected, lowered } = await feed.output;
  bench.progress(`${expected.size} effects enqueued; waiting for the last ones`);
  const history = await withClient(url, async (client) => {
    await Promise.race([untilEmpty(client), fleet.failed]);
    return await readHistory(client);
  });
  // In good order: whoever was frozen has told by then what became of its claims.
  await fleet.stop();
  sampler.stop();
  const open = await sampler.output;
  await database.drop();
  const { kills, freezes } = fleet;
  const books = audit(expected, history, news);
  return { globalCap, enqueued: expected.size, lowered, open, books, news, faults: { kills, freezes } };
}

async function disturb(
  bench: Bench,
  fleet: Fleet,
  { ms, client }: { ms: number; client: pg.Client },
): Promise<void> {
  const endAt = performance.now() + ms;
  const again = async (everyMs: number, act: () => Promise<void> | void): Promise<void> => {
    while (performance.now() + everyMs < endAt) {
      await sleep(everyMs);
      await act();
    }
  };
  await Promise.all([
    sleep(ms),
    again(KILL_EVERY_MS, async () => {
      fleet.kill();
      bench.progress('killed a dispatcher, and started another one');
      // On a slow machine, more than is killed has to start.
      await fleet.whole();
    }),
    again(FREEZE_AFTER_MS, async () => {
      const busiest = await busiestOf(client, fleet, endAt);
      if (busiest === undefined) return;
      await fleet.freeze(busiest, () => untilTakenOver(client, busiest));
      bench.progress('froze a dispatcher until another one ran what it was running');
    }),
  ]);
}

/** The dispatcher with the most open claims, as soon as one has any. */
async function busiestOf(client: pg.Client, fleet: Fleet, giveUpAt: number): Promise<string | undefined> {
  const { SCHEMA } = await import('@sluice/db');
  while (performance.now() < giveUpAt) {
    const { rows } = await client.query<{ claimant: string }>(
      `select claimant from ${SCHEMA}.effect_claim where claimant = any($1)
        group by claimant order by count(*) desc limit 1`,
      [fleet.alive],
    );
    if (rows[0] !== undefined) return rows[0].claimant;
    await sleep(LOOK_EVERY_MS);
  }
  return undefined;
}

/** Waits for the moment at which a late completion would do harm: an effect that this dispatcher had runs elsewhere. */
async function untilTakenOver(client: pg.Client, dispatcherId: string): Promise<void> {
  const { SCHEMA } = await import('@sluice/db');
  const giveUpAt = performance.now() + FREEZE_MS_MAX;
  const held = await client.query<{ effect_id: string }>(
    `select effect_id from ${SCHEMA}.effect_claim where claimant = $1`,
    [dispatcherId],
  );
  const effects = held.rows.map((row) => row.effect_id);
  while (performance.now() < giveUpAt) {
    await sleep(LOOK_EVERY_MS);
    const { rows } = await client.query(
      `select from ${SCHEMA}.effect_claim where effect_id = any($1::bigint[]) and claimant <> $2 limit 1`,
      [effects, dispatcherId],
    );
    if (rows.length > 0) return;
  }
}

async function setCaps(client: pg.Client, globalCap: number | null): Promise<void> {
  const { SCHEMA } = await import('@sluice/db');
  await client.query(
    `insert into ${SCHEMA}.repo (repo_id, cap) select * from unnest($1::text[], $2::int[])`,
    [[...CAPS.keys()], [...CAPS.values()]],
  );
  await client.query(`update ${SCHEMA}.queue_limit set global_cap = $1`, [globalCap]);
}

async function untilEmpty(client: pg.Client): Promise<void> {
  const { SCHEMA } = await import('@sluice/db');
  const giveUpAt = performance.now() + DRAIN_MS_MAX;
  for (;;) {
    const { rows } = await client.query(`select from ${SCHEMA}.effect_queue limit 1`);
    if (rows.length === 0) return;
    if (performance.now() > giveUpAt) throw new Error('expected all effects finished, some still are not');
    await sleep(100);
  }
}

async function readHistory(client: pg.Client): Promise<FinishedRow[]> {
  const { SCHEMA } = await import('@sluice/db');
  const { rows } = await client.query<{
    effect_id: string;
    state: string;
    outcome: string | null;
    claim_number: string | null;
  }>(`select effect_id, state, outcome, claim_number from ${SCHEMA}.effect_history`);
  return rows.map(({ effect_id, state, outcome, claim_number }) => ({
    effectId: BigInt(effect_id),
    state,
    outcome,
    claimNumber: claim_number === null ? null : BigInt(claim_number),
  }));
}
