import { table } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { enqueueEffects, type Enqueued } from './enqueue-effects.ts';
import { enqueueEffect } from './enqueue-effect.ts';
import { finishClaims } from './finish-claims.ts';
import type { NewEffect } from './new-effect.ts';

const database = useTestDatabase();
let repos = 0;
const freshRepo = () => `enqueue/${(repos += 1)}`;

async function stateOf(id: bigint): Promise<string> {
  const { state, reason } = await database.db
    .selectFrom('effect')
    .select(['state', 'reason'])
    .where('effect_id', '=', id)
    .executeTakeFirstOrThrow();
  return reason === null ? state! : `${state}: ${reason}`;
}

async function keysOf(repoId: string): Promise<Record<string, bigint>> {
  const rows = await database.db
    .selectFrom('effect_dedup')
    .select(['dedup_key', 'effect_id'])
    .where('repo_id', '=', repoId)
    .execute();
  return Object.fromEntries(rows.map((row) => [row.dedup_key, row.effect_id]));
}

/** Claims by hand, so that this file does not depend on the claim operations. */
async function claimed(repoId: string, id: bigint) {
  const row = await database.db
    .insertInto('effect_claim')
    .values({ repo_id: repoId, effect_id: id, attempt: 1, claimant: 'test' })
    .returning('claim_number')
    .executeTakeFirstOrThrow();
  return {
    repoId,
    effectId: id as Enqueued['effectId'],
    claimNumber: row.claim_number,
    attempt: 1,
    claimant: 'test',
  };
}

const statuses = (enqueued: readonly Enqueued[]) => enqueued.map(({ status }) => status);

test('effects keep every option, ids rise in the order given', async () => {
  const repoId = freshRepo();
  const runAt = new Date('2999-01-02T03:04:05.678Z');
  const payload = 'ünï "quoted" \\ {a,b} NULL 🙂';
  const all = await enqueueEffects(database.db, [
    { repoId, payload },
    {
      repoId,
      payload: '',
      name: 'build',
      priority: -3,
      maxAttempts: 7,
      runAt,
      dedupKey: 'k',
      concurrencyGroup: 'g',
      pushId: 'p',
    },
  ]);
  expect(statuses(all)).toEqual(['queued', 'queued']);
  expect(all[0]!.effectId).toBeLessThan(all[1]!.effectId);
  const rows = await database.db
    .selectFrom('effect_queue')
    .selectAll()
    .where('repo_id', '=', repoId)
    .orderBy('effect_id')
    .execute();
  expect(rows).toMatchObject([
    {
      payload,
      name: '',
      priority: 0,
      max_attempts: 3,
      run_at: null,
      dedup_key: null,
      push_id: null,
      attempts: 0,
    },
    {
      payload: '',
      name: 'build',
      priority: -3,
      max_attempts: 7,
      run_at: runAt,
      dedup_key: 'k',
      concurrency_group: 'g',
      push_id: 'p',
    },
  ]);
});

test('10,000 effects take one statement, and a full set of rules at most ten', async () => {
  const repoId = freshRepo();
  const limited = freshRepo();
  await database.db.insertInto('repo').values({ repo_id: limited, max_queued: 20_000 }).execute();
  const many = (repo: string, extra: (index: number) => Partial<NewEffect>) =>
    Array.from({ length: 10_000 }, (_, index) => ({ repoId: repo, payload: `${index}`, ...extra(index) }));
  const statements = async (effects: NewEffect[]) => {
    const before = log.length;
    const all = await enqueueEffects(counted, effects);
    const ids = all.map(({ effectId }) => effectId);
    return { count: log.length - before, all, ids };
  };
  const log: string[] = [];
  const counted = database.db.withPlugin({
    transformQuery: ({ node }) => node,
    // Of every statement; of one whose text is made beforehand, only the result passes here.
    transformResult: ({ result, queryId }) => (log.push(queryId.queryId), Promise.resolve(result)),
  });

  const plain = await statements(many(repoId, () => ({})));
  expect(plain.count).toBe(1);
  expect(plain.ids).toEqual(plain.ids.toSorted((a, b) => (a < b ? -1 : 1)));
  expect(new Set(plain.ids).size).toBe(10_000);
  const rows = await database.db
    .selectFrom('effect_queue')
    .select('payload')
    .where('repo_id', '=', repoId)
    .orderBy('effect_id')
    .execute();
  expect(rows.map((row) => row.payload)).toEqual(many(repoId, () => ({})).map((effect) => effect.payload));

  const rules = (index: number) => ({
    dedupKey: `k${index % 9000}`,
    concurrencyGroup: `g${index % 50}`,
    supersede: index % 3 === 0,
  });
  const large = await statements(many(limited, rules));
  const again = await statements(many(limited, (index) => ({ ...rules(index), dedupKey: `n${index}` })));
  const small = await statements(many(limited, rules).slice(0, 3));
  expect(Math.max(large.count, again.count, small.count)).toBeLessThanOrEqual(10);
}, 120_000);

test('a rollback leaves nothing: no effect, no key, no history', async () => {
  const repoId = freshRepo();
  await database.db.insertInto('repo').values({ repo_id: repoId, max_queued: 1 }).execute();
  const attempt = database.db.transaction().execute(async (trx) => {
    const all = await enqueueEffects(trx, [
      { repoId, payload: '1', dedupKey: 'k' },
      { repoId, payload: '2', dedupKey: 'l' },
    ]);
    expect(statuses(all)).toEqual(['queued', 'skipped']);
    throw new Error('changed my mind');
  });
  await expect(attempt).rejects.toThrow('changed my mind');
  const left = await database.db.selectFrom('effect').selectAll().where('repo_id', '=', repoId).execute();
  expect(left).toEqual([]);
  expect(await keysOf(repoId)).toEqual({});
});

test('a dedup key names its effect while that is unfinished, per repo, also within a batch', async () => {
  const [repoId, other] = [freshRepo(), freshRepo()];
  const all = await enqueueEffects(database.db, [
    { repoId, payload: 'first', dedupKey: 'k' },
    { repoId, payload: 'second', dedupKey: 'k' },
    { repoId: other, payload: 'other', dedupKey: 'k' },
  ]);
  expect(statuses(all)).toEqual(['queued', 'duplicate', 'queued']);
  expect(all[1]!.effectId).toBe(all[0]!.effectId);
  expect(await enqueueEffect(database.db, { repoId, payload: 'third', dedupKey: 'k' })).toBe(
    all[0]!.effectId,
  );

  const claim = await claimed(repoId, all[0]!.effectId);
  expect(await enqueueEffect(database.db, { repoId, payload: 'while claimed', dedupKey: 'k' })).toBe(
    all[0]!.effectId,
  );
  await finishClaims(database.db, [{ claim, state: 'done', outcome: 'pass' }]);
  const next = await enqueueEffect(database.db, { repoId, payload: 'afterwards', dedupKey: 'k' });
  expect(next).toBeGreaterThan(all[0]!.effectId);
  expect(await keysOf(repoId)).toEqual({ k: next });
});

test('a retained key outlives an effect that is done, and only such a one', async () => {
  const repoId = freshRepo();
  const retained = { repoId, payload: 'x', dedupKey: 'k', retainDedupKey: true };
  const first = await enqueueEffect(database.db, retained);
  await finishClaims(database.db, [{ claim: await claimed(repoId, first), state: 'dead', reason: 'poison' }]);
  const second = await enqueueEffect(database.db, retained);
  expect(second).not.toBe(first);
  await finishClaims(database.db, [{ claim: await claimed(repoId, second), state: 'done', outcome: 'fail' }]);
  expect(await enqueueEffect(database.db, retained)).toBe(second);
});

test('concurrent batches with the same keys in opposite orders agree on one holder per key', async () => {
  const repoId = freshRepo();
  const keys = Array.from({ length: 50 }, (_, index) => `k${index}`);
  const batches = await Promise.all(
    Array.from({ length: 8 }, (_, nth) =>
      enqueueEffects(
        database.db,
        (nth % 2 === 0 ? keys : keys.toReversed()).map((dedupKey) => ({
          repoId,
          payload: `${nth}`,
          dedupKey,
        })),
      ),
    ),
  );
  const queued = batches.flat().filter(({ status }) => status === 'queued');
  expect(queued).toHaveLength(50);
  expect(new Set(batches.flat().map(({ effectId }) => effectId)).size).toBe(50);
});

test('a superseding effect takes the place of waiting ones of its group, scheduled ones included', async () => {
  const repoId = freshRepo();
  const group = { repoId, payload: 'x', concurrencyGroup: 'main' };
  const [running, waiting, scheduled, elsewhere] = await enqueueEffects(database.db, [
    group,
    { ...group, dedupKey: 'w' },
    { ...group, delayMs: 3_600_000 },
    { ...group, concurrencyGroup: 'other' },
  ]);
  await claimed(repoId, running!.effectId);
  const [newest] = await enqueueEffects(database.db, [{ ...group, supersede: true, dedupKey: 'n' }]);
  expect(newest).toEqual({
    effectId: newest!.effectId,
    status: 'queued',
    superseded: [waiting!.effectId, scheduled!.effectId],
  });
  expect(await stateOf(waiting!.effectId)).toBe(`superseded: superseded by ${newest!.effectId}`);
  expect(await stateOf(scheduled!.effectId)).toBe(`superseded: superseded by ${newest!.effectId}`);
  expect(await stateOf(running!.effectId)).toBe('claimed');
  expect(await stateOf(elsewhere!.effectId)).toBe('enqueued');
  expect(await keysOf(repoId)).toEqual({ n: newest!.effectId });
});

test('within a batch the rules apply one effect after the other', async () => {
  const repoId = freshRepo();
  const group = { repoId, payload: 'x', concurrencyGroup: 'g' };
  const [old] = await enqueueEffects(database.db, [{ ...group, dedupKey: 'k' }]);
  const all = await enqueueEffects(database.db, [
    { ...group, dedupKey: 'k' }, // the old one holds k
    { ...group, supersede: true, dedupKey: 'l' }, // the old one goes, k is free
    { ...group, dedupKey: 'k' }, // so this holds k
    { ...group, supersede: true, dedupKey: 'm' }, // both go, k and l are free
    { repoId, payload: 'y', dedupKey: 'l' },
  ]);
  expect(statuses(all)).toEqual(['duplicate', 'queued', 'queued', 'queued', 'queued']);
  expect(all[0]!.effectId).toBe(old!.effectId);
  expect(await stateOf(all[1]!.effectId)).toBe(`superseded: superseded by ${all[3]!.effectId}`);
  expect(await stateOf(all[2]!.effectId)).toBe(`superseded: superseded by ${all[3]!.effectId}`);
  expect(await keysOf(repoId)).toEqual({ m: all[3]!.effectId, l: all[4]!.effectId });
});

test('beyond max_queued an effect is skipped with its reason, and its key stays free', async () => {
  const repoId = freshRepo();
  await database.db.insertInto('repo').values({ repo_id: repoId, max_queued: 3 }).execute();
  const running = await enqueueEffect(database.db, { repoId, payload: 'claimed: does not wait' });
  await claimed(repoId, running);
  const all = await enqueueEffects(database.db, [
    { repoId, payload: '1', concurrencyGroup: 'g' },
    { repoId, payload: '2', delayMs: 3_600_000 },
    { repoId, payload: '3', dedupKey: 'k' },
    { repoId, payload: '4', dedupKey: 'l' },
    { repoId, payload: '5', dedupKey: 'k' },
    { repoId, payload: '6', concurrencyGroup: 'g', supersede: true },
  ]);
  expect(statuses(all)).toEqual(['queued', 'queued', 'queued', 'skipped', 'duplicate', 'queued']);
  expect(await stateOf(all[3]!.effectId)).toBe('skipped: queue full');
  expect(Object.keys(await keysOf(repoId))).toEqual(['k']);
  const refused = database.db.transaction().execute(async (trx) => {
    await expect(enqueueEffect(trx, { repoId, payload: '7', dedupKey: 'm' })).rejects.toMatchObject({
      code: 'queue_full',
    });
    await expect(enqueueEffect(trx, { repoId, payload: '7' })).rejects.toMatchObject({ code: 'queue_full' });
  });
  await refused;
  expect(Object.keys(await keysOf(repoId))).toEqual(['k']);
});

test('under a limit lowered below what waits, what supersedes too few of them is skipped', async () => {
  const repoId = freshRepo();
  const group = { repoId, payload: 'x', concurrencyGroup: 'g', supersede: true };
  const [one] = await enqueueEffects(database.db, [group]);
  await database.db.insertInto('repo').values({ repo_id: repoId, max_queued: 0 }).execute();
  const refused = await enqueueEffects(database.db, [group, { repoId, payload: 'y' }]);
  expect(statuses(refused)).toEqual(['skipped', 'skipped']);
  await database.db.updateTable('repo').set({ max_queued: 1 }).where('repo_id', '=', repoId).execute();
  expect(await enqueueEffects(database.db, [group])).toMatchObject([
    { status: 'queued', superseded: [one!.effectId] },
  ]);
});

test('concurrent callers never exceed max_queued', async () => {
  const repoId = freshRepo();
  await database.db.insertInto('repo').values({ repo_id: repoId, max_queued: 5 }).execute();
  const all = await Promise.all(
    Array.from({ length: 20 }, () => enqueueEffects(database.db, [{ repoId, payload: 'x' }])),
  );
  expect(all.flat().filter(({ status }) => status === 'queued')).toHaveLength(5);
});

test('a time that has come already, and a delay of 0, mean now; a delay is counted from the statement', async () => {
  const repoId = freshRepo();
  await database.db.transaction().execute(async (trx) => {
    await sql`select pg_sleep(0.05)`.execute(trx);
    await enqueueEffects(trx, [
      { repoId, payload: 'past', runAt: new Date(1000) },
      { repoId, payload: 'zero', delayMs: 0 },
      { repoId, payload: 'later', delayMs: 60_000 },
    ]);
    const rows = await sql<{ run_at: Date | null; waits: boolean }>`
      select run_at, run_at between now() + interval '60.04 s' and clock_timestamp() + interval '60 s' as waits
        from ${table('effect_queue')} where repo_id = ${repoId} order by effect_id`.execute(trx);
    expect(rows.rows).toMatchObject([{ run_at: null }, { run_at: null }, { waits: true }]);
  });
});

test('one wrong effect refuses the batch before the database sees it', async () => {
  const good = { repoId: freshRepo(), payload: 'good' };
  const refused = enqueueEffects(database.db, [good, { ...good, priority: 1.5 }]);
  await expect(refused).rejects.toMatchObject({
    code: 'invalid_argument',
    message: expect.stringMatching(/^effects\[1\]\.priority: expected /),
  });
  const left = await database.db
    .selectFrom('effect')
    .select('effect_id')
    .where('repo_id', '=', good.repoId)
    .execute();
  expect(left).toEqual([]);
});

test('an empty batch is nothing', async () => {
  expect(await enqueueEffects(database.db, [])).toEqual([]);
});
