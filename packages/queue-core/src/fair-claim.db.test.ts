import { sluice } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { emptyQueue, fillQueue, openClaims } from '../test/fill-queue.ts';
import { fairClaim } from './fair-claim.ts';
import { finishClaims } from './finish-claims.ts';
import { lockTurns } from './turn-lock.ts';

const database = useTestDatabase();

beforeEach(() => emptyQueue(database.db));

const fill = (repoId: string, count: number, columns: { priority?: number } = {}) =>
  fillQueue(database.db, repoId, count, columns);

const claim = (
  turns: Parameters<typeof fairClaim>[1]['turns'],
  options: { defaultCap?: number; awaitMs?: number } = {},
) => fairClaim(database.db, { claimedBy: 'd1', turns, defaultCap: 100, ...options });

async function isSomebodyWaiting(): Promise<boolean> {
  const { rows } = await sql`
    select from pg_locks l join pg_database d on d.oid = l.database
     where d.datname = current_database() and l.locktype = 'advisory' and not l.granted`.execute(database.db);
  return rows.length > 0;
}

describe('what is taken', () => {
  test('the oldest of each named repo, with everything a run needs', async () => {
    const [a1, a2] = await fill('a', 3);
    const [b1] = await fill('b', 1);
    await fill('unnamed', 1);
    const { effects, findings, globalRoom } = await claim([
      { repoId: 'b', want: 5 },
      { repoId: 'a', want: 2 },
      { repoId: 'empty', want: 5 },
    ]);
    expect(effects.map((effect) => effect.effectId)).toEqual([b1, a1, a2]);
    expect(effects[0]).toEqual({
      effectId: b1,
      repoId: 'b',
      claimNumber: effects[0]!.claimNumber,
      attempt: 1,
      claimant: 'd1',
      name: '',
      payload: 'p1',
      maxAttempts: 3,
      pushId: null,
    });
    expect(findings.map(({ repoId, locked, got, hasMore }) => ({ repoId, locked, got, hasMore }))).toEqual([
      { repoId: 'b', locked: true, got: 1, hasMore: false },
      { repoId: 'a', locked: true, got: 2, hasMore: true },
      { repoId: 'empty', locked: true, got: 0, hasMore: false },
    ]);
    expect(globalRoom).toBeNull();
    expect(
      await finishClaims(
        database.db,
        effects.map((e) => ({ claim: e, state: 'done', outcome: 'pass' })),
      ),
    ).toHaveLength(3);
  });

  test('higher priority first, and what is claimed already never again', async () => {
    const [low] = await fill('a', 1, { priority: -5 });
    const [plain] = await fill('a', 1);
    const [high] = await fill('a', 1, { priority: 1 });
    const [top] = await fill('a', 1, { priority: 9 });
    const order: bigint[] = [];
    for (let round = 0; round < 4; round += 1) {
      order.push(...(await claim([{ repoId: 'a', want: 1 }])).effects.map((effect) => effect.effectId));
    }
    expect(order).toEqual([top, high, plain, low]);
    expect((await claim([{ repoId: 'a', want: 1 }])).effects).toEqual([]);
  });

  test('scheduled effects wait', async () => {
    await fill('a', 1);
    await database.db
      .updateTable('effect_queue')
      .set({ run_at: sql`now() - interval '1 hour'` })
      .execute();
    expect((await claim([{ repoId: 'a', want: 1 }])).effects).toEqual([]);
  });

  test('a row that somebody else holds is not waited for: the turn of its repo is what counts', async () => {
    const [first] = await fill('a', 2);
    await database.db.transaction().execute(async (holder) => {
      await holder
        .selectFrom('effect_queue')
        .select('effect_id')
        .where('effect_id', '=', first!)
        .forUpdate()
        .execute();
      const { effects } = await claim([{ repoId: 'a', want: 1 }]);
      expect(effects.map((effect) => effect.effectId)).toEqual([first]);
    });
  });
});

describe('caps', () => {
  test('the cap of the repo, or else the default, bounds what is open', async () => {
    await database.db.insertInto('repo').values({ repo_id: 'own', cap: 2, weight: 7 }).execute();
    await fill('own', 5);
    await fill('other', 5);
    const turns = [
      { repoId: 'own', want: 10 },
      { repoId: 'other', want: 10 },
    ];
    const first = await claim(turns, { defaultCap: 3 });
    expect(await openClaims(database.db)).toEqual({ own: 2, other: 3 });
    expect(first.findings.map(({ cap, weight, room, got }) => ({ cap, weight, room, got }))).toEqual([
      { cap: 2, weight: 7, room: 0, got: 2 },
      { cap: 3, weight: 1, room: 0, got: 3 },
    ]);
    const full = await claim(turns, { defaultCap: 3 });
    expect(full.effects).toEqual([]);
    expect(full.findings.map(({ room, hasMore }) => ({ room, hasMore }))).toEqual([
      { room: 0, hasMore: true },
      { room: 0, hasMore: true },
    ]);
    await finishClaims(database.db, [{ claim: first.effects[0]!, state: 'done', outcome: 'pass' }]);
    expect((await claim(turns, { defaultCap: 3 })).findings.map((finding) => finding.got)).toEqual([1, 0]);
  });

  test('a cap lowered below what is open takes nothing more', async () => {
    await fill('a', 6);
    await claim([{ repoId: 'a', want: 4 }]);
    await database.db.insertInto('repo').values({ repo_id: 'a', cap: 1 }).execute();
    const { effects, findings } = await claim([{ repoId: 'a', want: 4 }]);
    expect(effects).toEqual([]);
    expect(findings[0]).toMatchObject({ room: 0, got: 0, hasMore: true });
  });

  test('a paused repo gives nothing', async () => {
    await fill('a', 1);
    await database.db
      .insertInto('repo')
      .values({ repo_id: 'a', paused_at: sql<Date>`now()` })
      .execute();
    const { effects, findings } = await claim([{ repoId: 'a', want: 4 }]);
    expect(effects).toEqual([]);
    expect(findings[0]).toMatchObject({ isPaused: true, got: 0, hasMore: true });
  });

  test('the global cap bounds all repos together, the first turn served first', async () => {
    await database.db.updateTable('queue_limit').set({ global_cap: 5 }).execute();
    await fill('a', 4);
    await fill('b', 4);
    const turns = [
      { repoId: 'b', want: 4 },
      { repoId: 'a', want: 4 },
    ];
    const first = await claim(turns);
    expect(await openClaims(database.db)).toEqual({ b: 4, a: 1 });
    expect(first.globalRoom).toBe(0);
    expect(first.findings.map((finding) => finding.hasMore)).toEqual([true, true]);
    expect((await claim(turns)).effects).toEqual([]);
    await finishClaims(database.db, [{ claim: first.effects[0]!, state: 'done', outcome: 'pass' }]);
    expect((await claim(turns)).globalRoom).toBe(0);
    expect(await openClaims(database.db)).toEqual({ b: 3, a: 2 });
  });
});

describe('turns', () => {
  test('where a global cap is set, claims of different repos count one after the other', async () => {
    await database.db.updateTable('queue_limit').set({ global_cap: 1 }).execute();
    await fill('a', 1);
    await fill('b', 1);
    let second: ReturnType<typeof claim> | undefined;
    await database.db.transaction().execute(async (trx) => {
      const turns = [{ repoId: 'a', want: 1 }];
      const first = await fairClaim(trx, { claimedBy: 'd1', turns, defaultCap: 1 });
      expect(first.effects).toHaveLength(1);
      second = claim([{ repoId: 'b', want: 1 }]);
      await vi.waitUntil(isSomebodyWaiting, { timeout: 20_000 });
    });
    expect(await second).toMatchObject({ effects: [], globalRoom: 0 });
  });

  test('a repo that another claimer is busy with is reported, not waited for', async () => {
    await fill('busy', 1);
    await fill('free', 1);
    await database.db.transaction().execute(async (other) => {
      await lockTurns(other, ['busy']);
      const { effects, findings } = await claim([
        { repoId: 'busy', want: 1, sinceClaimNumber: 3n },
        { repoId: 'free', want: 1 },
      ]);
      expect(effects.map((effect) => effect.repoId)).toEqual(['free']);
      expect(findings).toMatchObject([
        { repoId: 'busy', locked: false, got: 0, hasMore: true, lowestClaim: 3n },
        { repoId: 'free', locked: true, got: 1 },
      ]);
    });
  });

  test('a repo that is awaited is claimed from as soon as the other claimer is done with it', async () => {
    await fill('busy', 1);
    await fill('free', 1);
    const claiming = await database.db.transaction().execute(async (other) => {
      await lockTurns(other, ['busy']);
      const turns = [
        { repoId: 'free', want: 1 },
        { repoId: 'busy', want: 1, isAwaited: true },
      ];
      const waiting = claim(turns, { awaitMs: 60_000 });
      await vi.waitUntil(isSomebodyWaiting, { timeout: 20_000 });
      return { waiting };
    });
    const { effects } = await claiming.waiting;
    expect(effects.map((effect) => effect.repoId).sort()).toEqual(['busy', 'free']);
  });

  test('an awaited repo that stays busy is given up, and nothing is claimed', async () => {
    await fill('busy', 1);
    await fill('free', 1);
    const turns = [
      { repoId: 'free', want: 1 },
      { repoId: 'busy', want: 1, isAwaited: true },
    ];
    await database.db.transaction().execute(async (other) => {
      await lockTurns(other, ['busy']);
      await expect(claim(turns)).rejects.toMatchObject({ code: '55P03' });
    });
    expect(await openClaims(database.db)).toEqual({});
    expect((await claim(turns)).effects).toHaveLength(2);
  });

  test('claimers that await the same repos in any order do not wait for each other in a circle', async () => {
    const repoIds = ['a', 'b', 'c', 'd'];
    for (const repoId of repoIds) await fill(repoId, 40);
    const claims = Array.from({ length: 40 }, (_, index) => {
      const turns = repoIds.map((repoId) => ({ repoId, want: 1, isAwaited: true }));
      return claim(index % 2 === 0 ? turns : turns.toReversed(), { awaitMs: 60_000 });
    });
    for (const { effects } of await Promise.all(claims)) expect(effects).toHaveLength(4);
  });

  test('where a global cap is set, claims come one after the other anyway, and no repo is waited for', async () => {
    await fill('busy', 1);
    await database.db.updateTable('queue_limit').set({ global_cap: 5 }).execute();
    await database.db.transaction().execute(async (other) => {
      await lockTurns(other, ['busy']);
      const { findings } = await claim([{ repoId: 'busy', want: 1, isAwaited: true }]);
      expect(findings[0]).toMatchObject({ locked: false });
    });
  });

  test('the lowest open claim bounds the next count and stays exact', async () => {
    await fill('a', 6);
    const first = await claim([{ repoId: 'a', want: 3 }]);
    const [one, two, three] = first.effects;
    const mark = async (since: bigint | null) =>
      (await claim([{ repoId: 'a', want: 1, sinceClaimNumber: since ?? 0n }], { defaultCap: 3 }))
        .findings[0]!;
    const full = await mark(first.findings[0]!.lowestClaim);
    expect(full).toMatchObject({ got: 0, lowestClaim: one!.claimNumber });
    await finishClaims(
      database.db,
      [one!, two!].map((e) => ({ claim: e, state: 'done', outcome: 'pass' })),
    );
    const half = await mark(full.lowestClaim);
    expect(half).toMatchObject({ got: 1, room: 1, lowestClaim: three!.claimNumber });
    await database.db.deleteFrom('effect_claim').execute();
    const none = await mark(half.lowestClaim);
    expect(none.lowestClaim).toBeGreaterThan(three!.claimNumber);
    expect(await mark(none.lowestClaim)).toMatchObject({ room: 1, got: 1 });
    expect(await openClaims(database.db)).toEqual({ a: 2 });
  });

  test('effects below the waiting mark are not looked at, whatever has another priority is', async () => {
    const [low] = await fill('a', 1, { priority: -1 });
    const [first, second] = await fill('a', 2);
    const { effects, findings } = await claim([{ repoId: 'a', want: 9, sinceEffectId: second! }]);
    expect(effects.map((effect) => effect.effectId)).toEqual([second, low]);
    expect(findings[0]!.lowestWaiting).toBe(second);
    expect((await claim([{ repoId: 'a', want: 9 }])).effects.map((effect) => effect.effectId)).toEqual([
      first,
    ]);
  });

  test("runs inside a caller's transaction and is undone with it", async () => {
    await fill('a', 1);
    const undone = database.db.transaction().execute(async (trx) => {
      const { effects } = await fairClaim(sluice(trx), {
        claimedBy: 'd1',
        turns: [{ repoId: 'a', want: 1 }],
        defaultCap: 1,
      });
      expect(effects).toHaveLength(1);
      throw new Error('undo');
    });
    await expect(undone).rejects.toThrow('undo');
    expect(await openClaims(database.db)).toEqual({});
  });

  test.each(['claims', 'is refused'])(
    "leaves a caller's transaction the plans it had: it %s",
    async (end) => {
      await fill('a', 1);
      const claimedBy = end === 'claims' ? 'd1' : '00000000-0000-4000-8000-000000000000';
      await database.db.transaction().execute(async (trx) => {
        const settings = () =>
          sql`select current_setting('enable_seqscan'), current_setting('enable_bitmapscan') as bitmap,
                   current_setting('jit') as jit, current_setting('lock_timeout') as patience`.execute(trx);
        await sql`set local enable_bitmapscan = off`.execute(trx);
        const { rows: before } = await settings();
        const options = { claimedBy, turns: [{ repoId: 'a', want: 1, isAwaited: true }], defaultCap: 1 };
        const code = await fairClaim(trx, options).then(
          ({ effects }) => effects.length,
          (error: { code: string }) => error.code,
        );
        expect(code).toBe(end === 'claims' ? 1 : 'dispatcher_gone');
        expect((await settings()).rows).toEqual(before);
      });
    },
  );

  test('a snapshot older than the lock is refused', async () => {
    const old = database.db
      .transaction()
      .setIsolationLevel('repeatable read')
      .execute((trx) =>
        fairClaim(trx, { claimedBy: 'd1', turns: [{ repoId: 'a', want: 1 }], defaultCap: 1 }),
      );
    await expect(old).rejects.toMatchObject({ code: 'wrong_isolation' });
  });

  test('bad input is refused by name', async () => {
    await expect(claim([{ repoId: 'a', want: 0 }])).rejects.toThrow(/turns\[0\]\.want/);
    await expect(claim([{ repoId: 'a b', want: 1 }])).rejects.toThrow(/turns\[0\]\.repoId/);
    const twice = [
      { repoId: 'a', want: 1 },
      { repoId: 'a', want: 1 },
    ];
    await expect(claim(twice)).rejects.toThrow(/turns\[1\]\.repoId: expected a repo named once/);
  });
});
