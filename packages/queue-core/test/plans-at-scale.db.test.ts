import { createDatabase, SCHEMA, table, type DB } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql, type Kysely, type Transaction } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { cancelEffects } from '../src/cancel-effects.ts';
import { claimEffects } from '../src/claim-effects.ts';
import { toClaimedEffect, type ClaimedEffect, type ClaimedRow } from '../src/claim.ts';
import { dispatcherCompleteMany } from '../src/dispatcher-complete.ts';
import { dispatcherFail, dispatcherFailMany } from '../src/dispatcher-fail.ts';
import { dispatcherHandBack } from '../src/dispatcher-hand-back.ts';
import { effectId, type EffectId } from '../src/effect-id.ts';
import { enqueueEffects } from '../src/enqueue-effects.ts';
import { fairClaim } from '../src/fair-claim.ts';
import { findEffect } from '../src/find-effect.ts';
import { finishedEffects } from '../src/finished-effects.ts';
import { maintainPartitions } from '../src/maintain-partitions.ts';
import { promoteDue } from '../src/promote-due.ts';
import { queueByRepo } from '../src/queue-by-repo.ts';
import { queueTotals } from '../src/queue-totals.ts';
import { readyRepos } from '../src/ready-repos.ts';
import { dispatcherRequeueStale } from '../src/requeue-stale.ts';
import { runningEffects } from '../src/running-effects.ts';
import { waitingEffects } from '../src/waiting-effects.ts';
import { buffersTouched } from './buffers-touched.ts';

/** Waiting effects, and as many finished ones. No bound below depends on it: `PLAN_ROWS=1000000` asserts the same. */
const ROWS = Number(process.env['PLAN_ROWS'] ?? 200_000);
const REPOS = 10_000;
const OPEN = 1_000;
const TABLES = ['effect_queue', 'effect_claim', 'effect_dedup', 'effect_history', 'repo', 'dispatcher'];

const database = useTestDatabase();
let claims: ClaimedEffect[] = [];
let someWaiting: EffectId;
let someFinished: EffectId;

beforeAll(async () => {
  const { db } = database;
  await maintainPartitions(db, { daysAhead: 1, retentionDays: 30 });
  for (const name of TABLES.filter((known) => known !== 'effect_history')) {
    await sql`alter table ${sql.id(SCHEMA, name)} set (autovacuum_enabled = false)`.execute(db);
  }
  for (const name of TABLES) await sql`analyze ${sql.id(SCHEMA, name)}`.execute(db);
  await fill(db);
}, 300_000);

/** Half of all waits in one repo; a tenth is scheduled, another has keys; the oldest effects are claimed. */
async function fill(db: Kysely<DB>): Promise<void> {
  await sql`insert into ${table('repo')} (repo_id, weight, cap)
    select 'repo/' || i, 1 + i % 9, 50 from generate_series(0, ${REPOS - 1}::int) i`.execute(db);
  await sql`insert into ${table('effect_queue')} (repo_id, payload, priority, run_at, dedup_key)
    select case when i % 2 = 0 then 'big' else 'repo/' || i % ${REPOS}::int end, repeat('x', 50),
           case when i % 11 = 0 then 5 else 0 end, case when i % 10 = 3 then now() + interval '1 day' + i * interval '1 s' end,
           case when i % 10 = 5 then 'k' || i end
      from generate_series(1, ${ROWS}::int) i`.execute(db);
  await sql`insert into ${table('effect_dedup')} (repo_id, dedup_key, effect_id, is_retained)
    select repo_id, dedup_key, effect_id, effect_id % 20 = 5 from ${table('effect_queue')} where dedup_key is not null`.execute(
    db,
  );
  await sql`insert into ${table('effect_history')} (effect_id, repo_id, name, payload, state, outcome, reason, priority,
           attempts, max_attempts, enqueued_at, finished_at)
    select nextval(${`${SCHEMA}.effect_id_seq`}::text::regclass), case when i % 2 = 0 then 'big' else 'repo/' || i % ${REPOS}::int end, '', 'x',
           case when i % 100 = 0 then 'dead' else 'done' end, case when i % 100 = 0 then null else 'pass' end,
           case when i % 100 = 0 then 'why' end, 0, 1, 3, now(), now() - (i % 5) * interval '1 day'
      from generate_series(1, ${ROWS}::int) i`.execute(db);
  const dead = await sql<{ id: string }>`
    insert into ${table('dispatcher')} (host, pid, slots, lease_ms, heartbeat_at)
    values ('h', 1, 1, 1000, now() - interval '1 hour') returning dispatcher_id::text as id`.execute(db);
  await sql`insert into ${table('effect_claim')} (repo_id, effect_id, attempt, claimant, claimed_at)
    select repo_id, effect_id, 1, case when effect_id % 4 = 0 then ${dead.rows[0]!.id} else 'w' end,
           now() - interval '1 hour'
      from ${table('effect_queue')} where run_at is null order by effect_id limit ${OPEN}::int`.execute(db);
  const open = await sql<ClaimedRow>`
    select c.*, q.name, q.payload, q.max_attempts, q.push_id from ${table('effect_claim')} c
      join ${table('effect_queue')} q on q.effect_id = c.effect_id order by c.claim_number`.execute(db);
  claims = open.rows.map(toClaimedEffect);
  const ids = await sql<{ waiting: bigint; finished: bigint }>`
    select (select max(effect_id) from ${table('effect_queue')} where run_at is null) as waiting,
           (select max(effect_id) from ${table('effect_history')}) as finished`.execute(db);
  someWaiting = effectId(ids.rows[0]!.waiting);
  someFinished = effectId(ids.rows[0]!.finished);
}

/** Repos with work; one in five of those that have any has scheduled effects alone. */
const repoIds = (count: number): string[] =>
  Array.from({ length: 2 * count }, (_, index) => 2 * index + 1)
    .filter((number) => number % 10 !== 3)
    .slice(0, count)
    .map((number) => `repo/${number}`);
const turns = (count: number, want: number) => repoIds(count).map((repoId) => ({ repoId, want }));

/** What it does, how many pages it may touch, and the doing; `count` is checked, so that nothing passes by doing nothing. */
const OPERATIONS: [
  what: string,
  most: number,
  run: (trx: Transaction<DB>) => Promise<unknown[]>,
  count: number,
][] = [
  [
    'a fair claim of 100 from a long backlog',
    4000,
    async (trx) =>
      (await fairClaim(trx, { claimedBy: 'w', turns: [{ repoId: 'big', want: 100 }], defaultCap: 100_000 }))
        .effects,
    100,
  ],
  [
    'a fair claim of 5 each from 100 repos',
    16_000,
    async (trx) => (await fairClaim(trx, { claimedBy: 'w', turns: turns(100, 5), defaultCap: 5 })).effects,
    500,
  ],
  [
    'a claim of 100 from a long backlog',
    4000,
    (trx) => claimEffects(trx, { repoId: 'big', claimedBy: 'w', limit: 100 }),
    100,
  ],
  [
    'a completion of 100',
    4000,
    (trx) =>
      dispatcherCompleteMany(
        trx,
        claims.slice(0, 100).map((claim) => ({ claim, outcome: 'pass' })),
      ),
    100,
  ],
  [
    'a failure',
    100,
    async (trx) => [await dispatcherFail(trx, { claim: claims[0]!, error: 'why', retryInMs: 1 })],
    1,
  ],
  [
    'a failure of 100, half of them dead',
    4000,
    (trx) =>
      dispatcherFailMany(
        trx,
        claims.slice(0, 100).map((claim, n) => ({
          claim,
          error: `why ${n}`,
          retryInMs: n,
          isPoison: n % 2 === 0,
        })),
      ),
    100,
  ],
  ['handing back 100', 1000, (trx) => dispatcherHandBack(trx, claims.slice(0, 100)), 100],
  [
    'a cancellation',
    100,
    (trx) => cancelEffects(trx, { repoId: 'big', effectIds: [someWaiting], reason: 'why' }),
    1,
  ],
  [
    'an enqueue of 100',
    5000,
    (trx) =>
      enqueueEffects(
        trx,
        repoIds(100).map((repoId) => ({ repoId, payload: 'x', dedupKey: 'new' })),
      ),
    100,
  ],
  ['a sweep page of 500 repos', 12_000, (trx) => readyRepos(trx, { limit: 500 }), 500],
  [
    'a promotion when nothing is due',
    50,
    async (trx) => (await promoteDue(trx, { limit: 1000 })).promoted,
    0,
  ],
  [
    'a requeue of 1,000',
    50_000,
    async (trx) => Array.from({ length: await dispatcherRequeueStale(trx, { olderThanMs: 1000 }) }),
    OPEN,
  ],
  ['why effects wait, all repos', 4000, (trx) => waitingEffects(trx, { limit: 100, defaultCap: 4 }), 100],
  [
    'why effects wait, one repo',
    4000,
    (trx) => waitingEffects(trx, { repoId: 'big', limit: 100, defaultCap: 4 }),
    100,
  ],
  ['why one effect waits behind many', 60_000, async (trx) => [await findEffect(trx, someWaiting)], 1],
  ['one finished effect', 60, async (trx) => [await findEffect(trx, someFinished)], 1],
  ['a page of repos', 20_000, (trx) => queueByRepo(trx, { limit: 20 }), 20],
  ['the totals', 60_000, async (trx) => [await queueTotals(trx)], 1],
  ['what runs', 600, (trx) => runningEffects(trx, { limit: 20 }), 20],
  ['what finished last', 60, (trx) => finishedEffects(trx, { limit: 20 }), 20],
  ['what finished last of a repo', 80, (trx) => finishedEffects(trx, { repoId: 'big', limit: 20 }), 20],
  ['what is dead', 80, (trx) => finishedEffects(trx, { state: 'dead', limit: 20 }), 20],
];

describe.each([
  ['taken when empty', 'auto'],
  ['taken when empty', 'force_generic_plan'],
  ['taken now', 'auto'],
  ['taken now', 'force_generic_plan'],
])('statistics %s, plan_cache_mode %s', (when, mode) => {
  let db: Kysely<DB>;

  beforeAll(async () => {
    const options = encodeURIComponent(`-c plan_cache_mode=${mode}`);
    db = createDatabase({
      connectionString: `${database.url}?options=${options}`,
      applicationName: 'test plans',
      connectionsMax: 1,
    });
    if (when !== 'taken now' || mode !== 'auto') return;
    for (const name of TABLES) await sql`vacuum (analyze) ${sql.id(SCHEMA, name)}`.execute(db);
  }, 120_000);

  afterAll(() => db.destroy());

  test.each(OPERATIONS)('%s touches few pages', async (_, most, run, count) => {
    let done: unknown[] = [];
    const touched = await buffersTouched(db, async (trx) => {
      done = await run(trx);
    });
    expect(done).toHaveLength(count);
    expect(touched).toBeLessThan(most);
  });
});
