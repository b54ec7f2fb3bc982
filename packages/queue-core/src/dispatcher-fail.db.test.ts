import { createDatabase, table } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { beforeEach, expect, test } from 'vitest';
import { claimSome, emptyQueue, fillQueue, openClaims } from '../test/fill-queue.ts';
import { dispatcherFail, dispatcherFailMany } from './dispatcher-fail.ts';
import { dispatcherHandBack } from './dispatcher-hand-back.ts';
import { promoteDue } from './promote-due.ts';

const database = useTestDatabase();
beforeEach(() => emptyQueue(database.db));

const effect = () => database.db.selectFrom('effect').selectAll().executeTakeFirstOrThrow();

async function claimOne() {
  const [claim] = await claimSome(database.db, 'a', 1);
  return claim!;
}

test('with attempts left the effect is scheduled again and the room is free', async () => {
  await fillQueue(database.db, 'a', 1);
  const claim = await claimOne();
  const before = await sql<{ at: Date }>`select clock_timestamp() as at`.execute(database.db);
  expect(
    await dispatcherFail(database.db, { claim, error: 'no\u0000 sandbox\u001b[2J', retryInMs: 60_000 }),
  ).toBe('scheduled');
  expect(await openClaims(database.db)).toEqual({});
  const row = await effect();
  expect(row).toMatchObject({ state: 'scheduled', attempts: 1, reason: 'no\\u0000 sandbox\\u001b[2J' });
  expect(row.run_at!.getTime() - before.rows[0]!.at.getTime()).toBeGreaterThanOrEqual(60_000);
});

test('after the last attempt the effect is dead with the reason of that attempt', async () => {
  await fillQueue(database.db, 'a', 1, { maxAttempts: 2 });
  expect(await dispatcherFail(database.db, { claim: await claimOne(), error: 'one', retryInMs: 0 })).toBe(
    'scheduled',
  );
  await promoteDue(database.db, { limit: 10 });
  const claim = await claimOne();
  expect(claim.attempt).toBe(2);
  expect(await dispatcherFail(database.db, { claim, error: 'two', retryInMs: 0 })).toBe('dead');
  expect(await effect()).toMatchObject({
    state: 'dead',
    attempts: 2,
    reason: 'two',
    claim_number: claim.claimNumber,
  });
  expect(await dispatcherFail(database.db, { claim, error: 'three', retryInMs: 0 })).toBe('stale');
});

test('poison is dead at once', async () => {
  await fillQueue(database.db, 'a', 1);
  const claim = await claimOne();
  expect(await dispatcherFail(database.db, { claim, error: 'not JSON', retryInMs: 0, isPoison: true })).toBe(
    'dead',
  );
  expect(await effect()).toMatchObject({ state: 'dead', attempts: 1, reason: 'not JSON' });
});

test('a dead effect frees its dedup key, a retried one keeps it', async () => {
  const [id] = await fillQueue(database.db, 'a', 1, { maxAttempts: 2 });
  await database.db.updateTable('effect_queue').set({ dedup_key: 'k' }).execute();
  await database.db
    .insertInto('effect_dedup')
    .values({ repo_id: 'a', dedup_key: 'k', effect_id: id!, is_retained: true })
    .execute();
  const keys = () => database.db.selectFrom('effect_dedup').select('dedup_key').execute();
  await dispatcherFail(database.db, { claim: await claimOne(), error: 'x', retryInMs: 0 });
  expect(await keys()).toHaveLength(1);
  await promoteDue(database.db, { limit: 10 });
  await dispatcherFail(database.db, { claim: await claimOne(), error: 'x', retryInMs: 0 });
  expect(await keys()).toEqual([]);
});

test('any delay is stored, a longer one as 30 days; what is no duration is refused', async () => {
  await fillQueue(database.db, 'a', 1);
  const claim = await claimOne();
  await expect(dispatcherFail(database.db, { claim, error: 'x', retryInMs: -1 })).rejects.toThrow(
    /^retryInMs/,
  );
  await expect(dispatcherFail(database.db, { claim, error: 'x', retryInMs: NaN })).rejects.toThrow(
    /^retryInMs/,
  );
  expect(await dispatcherFail(database.db, { claim, error: 'x', retryInMs: Infinity })).toBe('scheduled');
  const { rows } = await sql<{ days: number }>`
    select round(extract(epoch from run_at - now()) / 86400)::int as days from sluice.effect_queue`.execute(
    database.db,
  );
  expect(rows).toEqual([{ days: 30 }]);
});

test('many fail as each would alone, in one statement', async () => {
  const statements: string[] = [];
  await using db = createDatabase({
    connectionString: database.url,
    applicationName: 'test',
    log: ({ query }) => {
      statements.push(query.sql);
    },
  });
  await fillQueue(db, 'a', 3);
  await fillQueue(db, 'b', 2, { maxAttempts: 1 });
  const [soon, late, poison] = await claimSome(db, 'a', 3);
  const [last, lost] = await claimSome(db, 'b', 2);
  expect(await dispatcherHandBack(db, [lost!])).toHaveLength(1);
  statements.length = 0;
  const failures = [
    { claim: lost!, error: 'lost', retryInMs: 0 },
    { claim: late!, error: 'late', retryInMs: 3_600_000 },
    { claim: last!, error: 'last', retryInMs: 0 },
    { claim: poison!, error: 'poison', retryInMs: 0, isPoison: true },
    { claim: soon!, error: 'soon', retryInMs: 0 },
    { claim: soon!, error: 'once more', retryInMs: 0 },
  ];
  expect(await dispatcherFailMany(db, failures)).toEqual([
    'stale',
    'scheduled',
    'dead',
    'dead',
    'scheduled',
    'stale',
  ]);
  expect(statements).toHaveLength(1);
  const rows = await sql<{ reason: string; state: string; attempts: number; minutes: number | null }>`
    select reason, state, attempts, round(extract(epoch from run_at - clock_timestamp()) / 60)::int as minutes
      from ${table('effect')} order by effect_id`.execute(db);
  expect(rows.rows).toEqual([
    { reason: 'soon', state: 'scheduled', attempts: 1, minutes: 0 },
    { reason: 'late', state: 'scheduled', attempts: 1, minutes: 60 },
    { reason: 'poison', state: 'dead', attempts: 1, minutes: null },
    { reason: 'last', state: 'dead', attempts: 1, minutes: null },
    { reason: null, state: 'enqueued', attempts: 0, minutes: null },
  ]);
  expect(await openClaims(db)).toEqual({});
  expect(await dispatcherFailMany(db, [])).toEqual([]);
  await expect(
    dispatcherFailMany(db, [failures[0]!, { claim: soon!, error: '', retryInMs: -1 }]),
  ).rejects.toThrow(/^failures\[1\]\.retryInMs/);
});

test('handing back spends no attempt and keeps the place in the queue', async () => {
  const ids = await fillQueue(database.db, 'a', 3);
  const claims = await claimSome(database.db, 'a', 2);
  const accepted = await dispatcherHandBack(database.db, [...claims, claims[0]!]);
  expect(new Set(accepted)).toEqual(new Set(claims.map((claim) => claim.claimNumber)));
  expect(accepted).toHaveLength(2);
  expect(await dispatcherHandBack(database.db, claims)).toEqual([]);
  expect(await dispatcherHandBack(database.db, [])).toEqual([]);
  const again = await claimSome(database.db, 'a', 3, 'd2');
  expect(again.map((claim) => claim.effectId)).toEqual(ids);
  expect(again.map((claim) => claim.attempt)).toEqual([1, 1, 1]);
});
