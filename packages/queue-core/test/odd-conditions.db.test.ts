import { createDatabase, SCHEMA, table } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { beforeEach, describe, expect, test } from 'vitest';
import { completeEffect } from '../src/complete-effect.ts';
import { dispatcherCompleteMany } from '../src/dispatcher-complete.ts';
import { dispatcherFail } from '../src/dispatcher-fail.ts';
import { heartbeat, registerDispatcher } from '../src/dispatcher-lease.ts';
import { enqueueEffects } from '../src/enqueue-effects.ts';
import { fairClaim } from '../src/fair-claim.ts';
import { findEffect } from '../src/find-effect.ts';
import { maintainPartitions } from '../src/maintain-partitions.ts';
import { promoteDue } from '../src/promote-due.ts';
import { queueTotals } from '../src/queue-totals.ts';
import { readyRepos } from '../src/ready-repos.ts';
import { dispatcherRequeueStale } from '../src/requeue-stale.ts';
import { claimSome, emptyQueue, fillQueue, openClaims } from './fill-queue.ts';

const database = useTestDatabase();
beforeEach(() => emptyQueue(database.db));

test('a sweep over 100,000 repos names each once, page by page', async () => {
  const { db } = database;
  await sql`insert into ${table('effect_queue')} (repo_id, payload)
    select 'repo/' || n, '' from generate_series(1, 100000) n`.execute(db);
  const found = new Set<string>();
  let after: string | undefined;
  for (let pages = 0; pages < 30; pages += 1) {
    const page = await readyRepos(db, { after, limit: 5_000 });
    for (const repo of page) found.add(repo.repoId);
    if (page.length < 5_000) break;
    after = page.at(-1)!.repoId;
  }
  expect(found.size).toBe(100_000);
  expect(await queueTotals(db)).toMatchObject({ repos: 100_000, weights: 100_000 });
  const turns = [...found].slice(0, 10_000).map((repoId) => ({ repoId, want: 1 }));
  const { effects } = await fairClaim(db, { claimedBy: 'w', turns, defaultCap: 1 });
  expect(effects).toHaveLength(10_000);
});

describe('a repo deleted while effects of it are claimed', () => {
  test('takes nothing from its effects: they end, are retried, requeued and claimed under the default cap', async () => {
    const { db } = database;
    await db.insertInto('repo').values({ repo_id: 'gone', cap: 5, weight: 9, max_queued: 5 }).execute();
    await fillQueue(db, 'gone', 8);
    const [first, second, ...others] = await claimSome(db, 'gone', 4);
    await db.deleteFrom('repo').where('repo_id', '=', 'gone').execute();
    expect(await completeEffect(db, first!)).toBe('completed');
    expect(await dispatcherFail(db, { claim: second!, error: 'why', retryInMs: 0 })).toBe('scheduled');
    expect(await openClaims(db)).toEqual({ gone: 2 });
    const turn = { claimedBy: 'w', turns: [{ repoId: 'gone', want: 10 }], defaultCap: 3 };
    expect(await fairClaim(db, turn)).toMatchObject({ findings: [{ got: 1, cap: 3, weight: 1 }] });
    expect(await dispatcherRequeueStale(db, { olderThanMs: 0 })).toBe(3);
    expect(await completeEffect(db, others[0]!)).toBe('stale');
    expect((await promoteDue(db, { limit: 10 })).promoted).toHaveLength(1);
    expect(await readyRepos(db, { limit: 10 })).toMatchObject([
      { repoId: 'gone', next: { priority: 0 }, claimed: 0, cap: null, weight: 1, isPaused: false },
    ]);
    expect((await claimSome(db, 'gone', 100)).length).toBe(7);
  });
});

describe('two processes under one dispatcher id', () => {
  test('share no effect, and each claim is completed once', async () => {
    const { db } = database;
    const id = await registerDispatcher(db, { host: 'h', pid: 1, slots: 9, leaseMs: 60_000 });
    await fillQueue(db, 'a', 40);
    const claim = () => fairClaim(db, { claimedBy: id, turns: [{ repoId: 'a', want: 10 }], defaultCap: 30 });
    const claims = (await Promise.all([claim(), claim(), claim(), claim()])).flatMap(
      ({ effects }) => effects,
    );
    expect(claims.length).toBeGreaterThanOrEqual(10);
    expect(new Set(claims.map(({ effectId }) => effectId)).size).toBe(claims.length);
    const completions = claims.map((one) => ({ claim: one, outcome: 'pass' as const }));
    const accepted = await Promise.all([
      dispatcherCompleteMany(db, completions),
      dispatcherCompleteMany(db, completions),
    ]);
    expect(accepted.flat()).toHaveLength(claims.length);
    expect(new Set(accepted.flat()).size).toBe(claims.length);
  });

  test('cannot register it: an id is drawn by the database and never taken twice', async () => {
    const { db } = database;
    const id = await registerDispatcher(db, { host: 'h', pid: 1, slots: 1, leaseMs: 60_000 });
    const again = db
      .insertInto('dispatcher')
      .values({ dispatcher_id: id, host: 'h', pid: 2, slots: 1, lease_ms: 60_000 })
      .execute();
    await expect(again).rejects.toMatchObject({ code: '23505' });
  });
});

describe.each(['Pacific/Kiritimati', 'America/St_Johns'])('a database in the time zone %s', (zone) => {
  test('keeps instants, due times, leases and days as they are', async () => {
    await using db = createDatabase({
      connectionString: `${database.url}?options=-c%20timezone%3D${encodeURIComponent(zone)}`,
      applicationName: 'test',
    });
    const { rows } = await sql<{ zone: string }>`select current_setting('timezone') as zone`.execute(db);
    expect(rows[0]!.zone).toBe(zone);
    const runAt = new Date('2999-06-01T12:34:56.789Z');
    const soon = new Date(Date.now() + 3_600_000);
    const [far, near, past] = await enqueueEffects(db, [
      { repoId: 'a', payload: '', runAt },
      { repoId: 'a', payload: '', runAt: soon },
      { repoId: 'a', payload: '', runAt: new Date(Date.now() - 3_600_000) },
    ]);
    expect(await findEffect(db, far!.effectId)).toMatchObject({ runAt, state: 'scheduled' });
    expect(await findEffect(db, near!.effectId)).toMatchObject({ runAt: soon, state: 'scheduled' });
    expect(await findEffect(db, past!.effectId)).toMatchObject({ state: 'enqueued' });
    const { promoted, nextDueInMs } = await promoteDue(db, { limit: 10 });
    expect(promoted).toEqual([]);
    expect(nextDueInMs).toBeGreaterThan(0);

    const id = await registerDispatcher(db, { host: 'h', pid: 1, slots: 1, leaseMs: 600_000 });
    expect(await claimSome(db, 'a', 5, id)).toHaveLength(1);
    expect(await dispatcherRequeueStale(db, { olderThanMs: 0 })).toBe(0);
    expect(await heartbeat(db, id)).toBe('alive');

    await maintainPartitions(db, { daysAhead: 2, retentionDays: 30 });
    // A second look from the other side of the globe: the same days, bounded at midnight UTC.
    const again = await maintainPartitions(database.db, { daysAhead: 2, retentionDays: 30 });
    expect(again).toMatchObject({ created: [], skipped: [] });
    await sql`insert into ${table('effect_history')} (effect_id, repo_id, name, payload, state, reason, priority, attempts,
             max_attempts, enqueued_at) values (nextval(${`${SCHEMA}.effect_id_seq`}::text::regclass), 'a', '', '', 'dead', 'why', 0, 1, 1, now())`.execute(
      db,
    );
    const misplaced = await sql`select from ${sql.id(SCHEMA, 'effect_history_default')}`.execute(db);
    expect(misplaced.rows).toEqual([]);
  });
});
