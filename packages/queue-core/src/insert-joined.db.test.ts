import { createDatabase, createPool, sluice, table, type DB } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { Kysely, PostgresDialect, sql, type LogEvent } from 'kysely';
import { AsyncLocalStorage } from 'node:async_hooks';
import { setImmediate } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { insertQuery } from './insert-effect.ts';
import type { NewEffect } from './new-effect.ts';
import { enqueueEffect } from './repo.ts';

const database = useTestDatabase();
const REFUSED = 'the database refuses this';
const caller = new AsyncLocalStorage<string>();
let db: Kysely<DB>;
/** The enqueueing statements that were sent, and as a part of what. */
let sent: { text: string; from: string }[] = [];
let repos = 0;
const freshRepo = () => `joined/${(repos += 1)}`;

const log = ({ query }: LogEvent) => {
  if (query.sql.includes('into "sluice"."effect_queue"'))
    sent.push({ text: query.sql, from: caller.getStore() ?? '' });
};
beforeAll(async () => {
  db = createDatabase({ connectionString: database.url, applicationName: 'joined', log });
  await sql`alter table ${table('effect_queue')} add constraint refused check (payload <> ${sql.lit(REFUSED)})`.execute(
    database.db,
  );
});
afterAll(() => db.destroy());
beforeEach(() => {
  sent = [];
});

const rowsOf = (repoId: string) =>
  database.db
    .selectFrom('effect_queue')
    .selectAll()
    .where('repo_id', '=', repoId)
    .orderBy('effect_id')
    .execute();
const some = (count: number, repoId: string): NewEffect[] =>
  Array.from({ length: count }, (_, index) => ({ repoId, payload: `${index}` }));

/** Runs with every insert held back, by a lock on the table; `release` lets them go. */
async function heldBack(run: (release: () => Promise<void>) => Promise<void>): Promise<void> {
  const trx = await database.db.startTransaction().execute();
  await sql`lock table ${table('effect_queue')} in exclusive mode`.execute(trx);
  const release = async () => {
    if (!trx.isCommitted) await trx.commit().execute();
  };
  try {
    await run(release);
  } finally {
    await release();
  }
}

/** Waits until so many inserts are held back, and tells their processes. */
async function underWay(count: number): Promise<number[]> {
  let pids: number[] = [];
  await expect
    .poll(
      async () => {
        const { rows } = await sql<{ pid: number }>`
          select pid from pg_stat_activity where datname = current_database() and application_name = 'joined'
             and wait_event_type = 'Lock' order by query_start`.execute(database.db);
        pids = rows.map((row) => row.pid);
        return pids.length;
      },
      { timeout: 20_000 },
    )
    .toBe(count);
  return pids;
}

test('a lone call is one plain insert', async () => {
  const effect = { repoId: freshRepo(), payload: 'x' };
  await enqueueEffect(db, effect);
  expect(sent.map(({ text }) => text)).toEqual([insertQuery(effect).sql]);
});

test('calls made at once share a statement; each gets the id of its own effect, which keeps every option', async () => {
  const repoId = freshRepo();
  const runAt = new Date('2999-01-02T03:04:05.678Z');
  const effects: NewEffect[] = [
    { repoId, payload: 'ünï "quoted" \\ {a,b} NULL 🙂' },
    { repoId, payload: '', name: 'build', priority: -3, maxAttempts: 7, runAt, pushId: 'p' },
    { repoId, payload: 'later', delayMs: 3_600_000, concurrencyGroup: 'g' },
    { repoId, payload: 'now', delayMs: 0 },
  ];
  const ids = await Promise.all(effects.map((effect) => enqueueEffect(db, effect)));
  expect(sent).toHaveLength(1);
  const rows = await rowsOf(repoId);
  expect(rows.map((row) => row.effect_id)).toEqual(ids);
  expect(rows).toMatchObject([
    { payload: effects[0]!.payload, name: '', priority: 0, max_attempts: 3, run_at: null, push_id: null },
    { payload: '', name: 'build', priority: -3, max_attempts: 7, run_at: runAt, push_id: 'p' },
    { payload: 'later', concurrency_group: 'g', run_at: expect.any(Date) },
    { payload: 'now', concurrency_group: null, run_at: null },
  ]);
});

test('two statements are under way; who calls meanwhile waits for one of them, and goes with the others', async () => {
  const repoId = freshRepo();
  const calls: Promise<bigint>[] = [];
  await heldBack(async (release) => {
    for (const alone of [1, 2]) {
      calls.push(enqueueEffect(db, { repoId, payload: 'alone' }));
      await underWay(alone);
    }
    for (const effect of some(5, repoId)) {
      calls.push(enqueueEffect(db, effect));
      await setImmediate();
    }
    await release();
  });
  const ids = await Promise.all(calls);
  expect(sent).toHaveLength(3);
  expect((await rowsOf(repoId)).map((row) => row.effect_id)).toEqual(ids.toSorted((a, b) => Number(a - b)));
  expect(new Set(ids).size).toBe(7);
});

test('a statement takes at most 500 effects and 4 MiB of payload', async () => {
  const repoId = freshRepo();
  await Promise.all(some(1_001, repoId).map((effect) => enqueueEffect(db, effect)));
  expect(sent).toHaveLength(3);
  sent = [];
  const large = { repoId, payload: 'x'.repeat(1_500_000) };
  await Promise.all([large, large, large].map((effect) => enqueueEffect(db, effect)));
  expect(sent).toHaveLength(2);
  expect(await rowsOf(repoId)).toHaveLength(1_004);
});

test('what the database refuses of one call fails that call alone', async () => {
  const repoId = freshRepo();
  const effects = ['0', REFUSED, '2', REFUSED, '4'].map((payload) => ({ repoId, payload }));
  const settled = await Promise.allSettled(effects.map((effect) => enqueueEffect(db, effect)));
  const refused = { status: 'rejected', reason: { code: '23514', constraint: 'refused' } };
  const kept = { status: 'fulfilled', value: expect.any(BigInt) };
  expect(settled).toMatchObject([kept, refused, kept, refused, kept]);
  const rows = await rowsOf(repoId);
  for (const [index, result] of settled.entries())
    if (result.status === 'fulfilled')
      expect(rows.find((row) => row.effect_id === result.value)?.payload).toBe(`${index}`);
  expect(rows).toHaveLength(3);
});

test('what an argument has wrong never joins the others', async () => {
  const repoId = freshRepo();
  const settled = await Promise.allSettled([
    enqueueEffect(db, { repoId, payload: '0' }),
    enqueueEffect(db, { repoId, payload: '1', priority: 1.5 }),
    enqueueEffect(db, { repoId, payload: '2' }),
  ]);
  expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  expect(settled[1]).toMatchObject({ reason: { code: 'invalid_argument' } });
  expect(sent).toHaveLength(1);
});

test('a repo that is full refuses its own call, and the others are not sent again', async () => {
  const [free, full, roomy] = [freshRepo(), freshRepo(), freshRepo()];
  await database.db
    .insertInto('repo')
    .values([
      { repo_id: full, max_queued: 0 },
      { repo_id: roomy, max_queued: 9 },
    ])
    .execute();
  const effects = [free, full, roomy, free].map((repoId) => ({ repoId, payload: repoId }));
  const settled = await Promise.allSettled(effects.map((effect) => enqueueEffect(db, effect)));
  const kept = { status: 'fulfilled', value: expect.any(BigInt) };
  const refused = { status: 'rejected', reason: { code: 'queue_full' } };
  expect(settled).toMatchObject([kept, refused, kept, kept]);
  const rows = [...(await rowsOf(free)), ...(await rowsOf(full)), ...(await rowsOf(roomy))];
  const ids = settled.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  expect(rows.map((row) => row.effect_id)).toEqual([ids[0], ids[2], ids[1]]);
  // All four, and by the rules what has room.
  expect(sent).toHaveLength(2);
});

test('calls with one dedup key get one id, whoever comes with them', async () => {
  const repoId = freshRepo();
  const effects = [...some(3, repoId), ...some(3, repoId).map((effect) => ({ ...effect, dedupKey: 'k' }))];
  const ids = await Promise.all(effects.map((effect) => enqueueEffect(db, effect)));
  expect(new Set(ids.slice(3)).size).toBe(1);
  expect(await rowsOf(repoId)).toHaveLength(4);
  expect(new Set(ids).size).toBe(4);
});

test('who loses the connection fails every caller of the statement, is not repeated, and lets all go who wait', async () => {
  const [lost, other, waiting] = [freshRepo(), freshRepo(), freshRepo()];
  await heldBack(async (release) => {
    const failing = Promise.allSettled(some(3, lost).map((effect) => enqueueEffect(db, effect)));
    const [pid] = await underWay(1);
    const calls = [enqueueEffect(db, { repoId: other, payload: 'x' })];
    await underWay(2);
    for (const effect of some(1_100, waiting)) calls.push(enqueueEffect(db, effect));
    await sql`select pg_terminate_backend(${pid})`.execute(database.db);
    await underWay(4);
    await release();
    const failure = { status: 'rejected', reason: { code: '57P01' } };
    expect(await failing).toMatchObject([failure, failure, failure]);
    await Promise.all(calls);
  });
  expect(await rowsOf(lost)).toEqual([]);
  expect(await rowsOf(other)).toHaveLength(1);
  expect(await rowsOf(waiting)).toHaveLength(1_100);
});

test('statements that are not answered keep nobody waiting for ever: who comes later has a connection of its own', async () => {
  const [silent, later] = [freshRepo(), freshRepo()];
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    await heldBack(async (release) => {
      const calls: Promise<bigint>[] = [];
      for (const alone of [1, 2]) {
        calls.push(enqueueEffect(db, { repoId: silent, payload: 'x' }));
        await underWay(alone);
      }
      for (const effect of some(3, later)) calls.push(enqueueEffect(db, effect));
      vi.advanceTimersByTime(15_000);
      await underWay(3);
      // Both places are free again, not more: the late answers give none back a second time.
      calls.push(enqueueEffect(db, { repoId: later, payload: 'alone' }));
      await underWay(4);
      calls.push(enqueueEffect(db, { repoId: later, payload: 'waits' }));
      await release();
      await Promise.all(calls);
    });
  } finally {
    vi.useRealTimers();
  }
  expect(sent).toHaveLength(5);
  expect(await rowsOf(silent)).toHaveLength(2);
  expect(await rowsOf(later)).toHaveLength(5);
});

test('an effect is as it was when it was given', async () => {
  const repoId = freshRepo();
  const effect = { repoId, payload: 'first', priority: 1, runAt: new Date('2999-01-01T00:00:00Z') };
  const first = enqueueEffect(db, effect);
  effect.payload = 'second';
  effect.priority = 2;
  effect.runAt.setUTCFullYear(2998);
  await Promise.all([first, enqueueEffect(db, effect)]);
  const rows = await rowsOf(repoId);
  expect(rows.map((row) => [row.payload, row.priority, row.run_at?.getUTCFullYear()])).toEqual([
    ['first', 1, 2999],
    ['second', 2, 2998],
  ]);
});

test('a statement runs as a part of what its first caller does, and what is sent again of what its own does', async () => {
  const repoId = freshRepo();
  const call = (who: string, payload: string) =>
    caller.run(who, () => enqueueEffect(db, { repoId, payload }));
  await heldBack(async (release) => {
    const calls = [call('a', 'x')];
    await underWay(1);
    calls.push(call('b', 'x'));
    await underWay(2);
    calls.push(call('c', 'x'), call('d', 'x'));
    await release();
    await Promise.all(calls);
  });
  expect(sent.map(({ from }) => from).toSorted()).toEqual(['a', 'b', 'c']);
  sent = [];
  await Promise.allSettled([call('e', 'x'), call('f', REFUSED)]);
  expect(sent.map(({ from }) => from).toSorted()).toEqual(['e', 'e', 'f']);
});

test('what belongs to a transaction, a pinned connection or a pool of the caller is sent as it is called', async () => {
  const repoId = freshRepo();
  const three = (on: Kysely<DB>) => Promise.all(some(3, repoId).map((effect) => enqueueEffect(on, effect)));
  const sendsThree = async (run: () => Promise<unknown>) => {
    sent = [];
    await run();
    expect(sent).toHaveLength(3);
  };
  await sendsThree(() => db.transaction().execute((trx) => three(trx)));
  await sendsThree(() => db.transaction().execute((trx) => three(sluice(trx))));
  await sendsThree(() => db.connection().execute((pinned) => three(pinned)));
  await sendsThree(async () => {
    const trx = await db.startTransaction().execute();
    await three(trx);
    await trx.rollback().execute();
  });
  await using callers = new Kysely<DB>({
    dialect: new PostgresDialect({
      pool: createPool({ connectionString: database.url, applicationName: 'callers' }),
    }),
    log,
  });
  await sendsThree(() => three(callers));
  await sendsThree(() => three(sluice(callers)));
  expect(await rowsOf(repoId)).toHaveLength(15);
});

test('a transaction that is undone takes its own calls with it, and no other', async () => {
  const [inside, outside] = [freshRepo(), freshRepo()];
  const calls: Promise<bigint>[] = [];
  const undone = db.transaction().execute(async (trx) => {
    for (const effect of some(5, outside)) calls.push(enqueueEffect(db, effect));
    await Promise.all(some(5, inside).map((effect) => enqueueEffect(trx, effect)));
    await Promise.all(calls);
    throw new Error('undone');
  });
  await expect(undone).rejects.toThrow('undone');
  expect(await rowsOf(inside)).toEqual([]);
  expect((await rowsOf(outside)).map((row) => row.effect_id)).toEqual(await Promise.all(calls));
});
