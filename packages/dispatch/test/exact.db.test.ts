import { createDatabase, table } from '@sluice/db';
import { startTcpProxy, useTestDatabase, type TcpProxy } from '@sluice/testkit';
import { sql } from 'kysely';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import { systemClock } from '../src/clock.ts';
import { enqueue, PASS, useDispatchers, type TestDispatcher } from './dispatchers.ts';
import { until } from './until.ts';

const database = useTestDatabase();

const DISPATCHERS = 3;
const EFFECTS_OF_EACH = 10;
const CAPS = new Map(Array.from({ length: 9 }, (_, index) => [`repo${index}`, 1 + (index % 3)]));

// Beats that a slow machine keeps, too: one that beats late is given its time before it judges others.
const BEAT_MS = 5_000;
const SETTLED_AFTER_BEATS = 3;
let aheadMs = 0;
const clock = { ...systemClock, now: () => systemClock.now() + aheadMs };

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

// Before the pools that they are on are closed, the dispatchers are stopped.
const start = useDispatchers(database);

interface Silenceable {
  dispatcher: TestDispatcher;
  proxy: TcpProxy;
  /** While it is set, no run that comes to its end ends before it. */
  gate?: Promise<void>;
  /** Effects of the runs that wait at the gate. */
  readonly atGate: Set<bigint>;
}

/** A dispatcher that hears and says nothing while its proxy is frozen. Its runs are deaf to their signal. */
async function startBehindProxy(): Promise<Silenceable> {
  const { hostname, port } = new URL(database.url);
  const proxy = await startTcpProxy({ host: hostname, port: Number(port || 5432) });
  cleanups.push(async () => await proxy[Symbol.asyncDispose]());
  const own = createDatabase({ connectionString: proxy.through(database.url), applicationName: 'silenced' });
  cleanups.push(() => own.destroy());
  const run = async ({ effectId }: { effectId: bigint }) => {
    await sleep(5 + Number(effectId % 8n) * 10);
    if (self.gate !== undefined) self.atGate.add(effectId);
    await self.gate;
    return PASS;
  };
  const dispatcher = await start(run, { db: own, slots: 6, clock, leaseMs: 60_000, beatMs: BEAT_MS });
  const self: Silenceable = { dispatcher, proxy, atGate: new Set() };
  return self;
}

/** Reads open claims in one snapshot after the other until told to stop; returns what was above a cap, and how often it looked. */
function watchCaps() {
  const above: string[] = [];
  let samples = 0;
  let isOver = false;
  const watching = (async () => {
    while (!isOver) {
      const { rows } = await sql<{ what: string }>`
        with open as (
          select c.repo_id, r.cap, count(*)::int as claims from ${table('effect_claim')} c
            join ${table('repo')} r on r.repo_id = c.repo_id group by c.repo_id, r.cap
        )
        select repo_id || ' has ' || claims || ' of ' || cap as what from open where claims > cap
        union all
        select 'all have ' || sum(claims) from open
        having sum(claims) > (select global_cap from ${table('queue_limit')})`.execute(database.db);
      above.push(...rows.map(({ what }) => what));
      samples += 1;
      await sleep(5);
    }
  })();
  return async () => {
    isOver = true;
    await watching;
    return { above, samples };
  };
}

/**
 * Silences a dispatcher that has claims until others have taken all of them over, as soon as its last beat is long ago.
 * Its runs end meanwhile, and their completions arrive when it is heard again.
 */
async function silenceUntilTakenOver(one: Silenceable): Promise<void> {
  const { db } = database;
  const { dispatcher, proxy } = one;
  const mayEnd = Promise.withResolvers<void>();
  one.gate = mayEnd.promise;
  // Of those past the gate a completion may be under way, which the server still takes.
  await until('a run of it waits', () => one.atGate.size > 0);
  proxy.freeze();
  const held = [...one.atGate];
  mayEnd.resolve();
  const claimant = dispatcher.dispatcherId;
  try {
    await until('others have its effects', async () => {
      // Each time anew: a beat may have been on its way.
      await db
        .updateTable('dispatcher')
        .set({ heartbeat_at: new Date(0) })
        .where('dispatcher_id', '=', claimant)
        .execute();
      const { rows } = await sql`
        select from ${table('effect')} where effect_id = any(${held}::bigint[])
           and (state = 'enqueued' or claimant = ${claimant})
        union all select from ${table('effect_claim')} where claimant = ${claimant} limit 1`.execute(db);
      return rows.length === 0;
    });
  } finally {
    proxy.thaw();
  }
}

test.each([8, null])(
  'with a global cap of %s: caps stay exact and every effect ends once, by its latest claim, although dispatchers fall silent past their leases',
  async (globalCap) => {
    const { db } = database;
    await db
      .insertInto('repo')
      .values([...CAPS].map(([repo_id, cap]) => ({ repo_id, cap })))
      .execute();
    await db.updateTable('queue_limit').set({ global_cap: globalCap }).execute();
    const stopWatching = watchCaps();
    const all = await Promise.all(Array.from({ length: DISPATCHERS }, () => startBehindProxy()));
    aheadMs += SETTLED_AFTER_BEATS * BEAT_MS;
    const silenced = all.slice(1);
    for (const one of silenced) {
      await enqueue(db, [...CAPS.keys()], EFFECTS_OF_EACH, { maxAttempts: 100 });
      await silenceUntilTakenOver(one);
    }
    await until('everything is finished', async () => {
      const left = await db.selectFrom('effect_queue').select('effect_id').limit(1).execute();
      return left.length === 0;
    });
    const { above, samples } = await stopWatching();
    expect(above).toEqual([]);
    expect(samples).toBeGreaterThan(10);

    await until('their late completions are refused', () =>
      silenced.every(({ dispatcher }) => dispatcher.stats.stale > 0),
    );
    const latest = new Map<bigint, bigint>();
    for (const { effectId, claimNumber } of all.flatMap(({ dispatcher }) => dispatcher.of('effect_started')))
      if (claimNumber > (latest.get(effectId) ?? 0n)) latest.set(effectId, claimNumber);
    const rows = await db
      .selectFrom('effect_history')
      .select(['effect_id', 'state', 'claim_number'])
      .execute();
    expect(rows).toHaveLength(silenced.length * CAPS.size * EFFECTS_OF_EACH);
    expect(rows.filter(({ state }) => state !== 'done')).toEqual([]);
    expect(new Map(rows.map(({ effect_id, claim_number }) => [effect_id, claim_number]))).toEqual(latest);
  },
);
