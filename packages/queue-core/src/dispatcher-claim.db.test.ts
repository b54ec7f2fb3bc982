import { SCHEMA, table } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { afterEach, expect, test } from 'vitest';
import { rowsTouched } from '../test/rows-touched.ts';
import { cancelEffects } from './cancel-effects.ts';
import { claimEffects } from './claim-effects.ts';
import { completeEffect } from './complete-effect.ts';
import { dispatcherClaim, oldestStatement } from './dispatcher-claim.ts';
import { enqueueEffects } from './enqueue-effects.ts';

const database = useTestDatabase();

afterEach(async () => {
  for (const name of ['effect_queue', 'effect_claim', 'repo']) {
    await sql`delete from ${sql.id(SCHEMA, name)}`.execute(database.db);
  }
  await database.db.updateTable('queue_limit').set({ global_cap: null }).execute();
});

const fill = (...repoIds: string[]) =>
  enqueueEffects(
    database.db,
    repoIds.map((repoId, n) => ({ repoId, payload: `${n}` })),
  );
const claim = (limit: number, excludeRepos: readonly string[] = []) =>
  dispatcherClaim(database.db, { claimedBy: 'd', limit, excludeRepos });
const payloads = (effects: readonly { payload: string }[]) => effects.map(({ payload }) => payload);

test('claims the oldest first across all repos, each row with its repo', async () => {
  await fill('r/1', 'r/2', 'r/1', 'r/3');
  const effects = await claim(3);
  expect(effects.map(({ repoId, payload, claimant }) => [repoId, payload, claimant])).toEqual([
    ['r/1', '0', 'd'],
    ['r/2', '1', 'd'],
    ['r/1', '2', 'd'],
  ]);
  expect(payloads(await claim(10))).toEqual(['3']);
  for (const effect of effects) expect(await completeEffect(database.db, effect)).toBe('completed');
});

test('an empty exclusion list excludes nothing, a full one all it names', async () => {
  await fill('r/1', 'r/2', 'r/3');
  expect(payloads(await claim(10, ['r/1', 'r/3', 'no/such']))).toEqual(['1']);
  expect(payloads(await claim(10, []))).toEqual(['0', '2']);
});

test.each([
  ['excludeRepos', { excludeRepos: null as unknown as string[] }],
  ['excludeRepos', { excludeRepos: undefined as unknown as string[] }],
  ['excludeRepos', { excludeRepos: 'r/1' as unknown as string[] }],
  ['excludeRepos\\[0\\]', { excludeRepos: [null as unknown as string] }],
  ['excludeRepos\\[1\\]', { excludeRepos: ['r/1', undefined as unknown as string] }],
  ['excludeRepos', { excludeRepos: Array.from({ length: 100_001 }, (_, n) => `r/${n}`) }],
  ['limit', { limit: 0 }],
  ['limit', { limit: -5 }],
  ['limit', { limit: Number.NaN }],
  ['limit', { limit: Number.POSITIVE_INFINITY }],
  ['claimedBy', { claimedBy: '' }],
])('a wrong %s is refused by name and claims nothing: %o', async (field, wrong) => {
  await fill('r/1');
  const request = { claimedBy: 'd', limit: 1, excludeRepos: [], ...wrong };
  await expect(dispatcherClaim(database.db, request)).rejects.toMatchObject({
    code: 'invalid_argument',
    message: expect.stringMatching(new RegExp(`^${field}: expected `)),
  });
  expect(await claim(1)).toHaveLength(1);
});

test('10,000 exclusions are one list', async () => {
  await fill('r/1', 'r/9999', 'other');
  const excluded = Array.from({ length: 10_000 }, (_, n) => `r/${n}`);
  expect(payloads(await claim(10, excluded))).toEqual(['2']);
});

test('10,000 exclusions in front of everything cost one look at each effect in front, and none is read for each', async () => {
  const { db } = database;
  const [inFront, behind] = [90_000, 10_000];
  // The first 10,000 repos own what is in front.
  await sql`insert into ${table('effect_queue')} (repo_id, payload)
    select 'r/' || case when n <= ${inFront}::int then n % 10000 else 10000 + n % 10000 end, n::text
      from generate_series(1, ${inFront + behind}::int) n`.execute(db);
  const excludeRepos = Array.from({ length: 10_000 }, (_, n) => `r/${n}`);
  const statement = oldestStatement({ limit: 50, excludeRepos });
  for (const statistics of ['never taken', 'taken when full']) {
    if (statistics === 'taken when full') await sql`analyze ${table('effect_queue')}`.execute(db);
    const { rows } = await sql<{ 'QUERY PLAN': string }>`explain (costs off) ${statement}`.execute(db);
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
    expect(plan, statistics).toMatch(/Filter: .*NOT \(.*hashed SubPlan/);
    expect(plan, statistics).not.toMatch(/ALL \(/);
    const { rows: touched } = await rowsTouched(db, statement);
    expect(touched, statistics).toBeLessThan(4 * (inFront + behind));
  }
  const unknown = Array.from({ length: 60_000 }, (_, n) => `no/such/${n}`);
  const claimed = await claim(50, [...excludeRepos, ...unknown]);
  expect(payloads(claimed)).toEqual(Array.from({ length: 50 }, (_, n) => `${inFront + 1 + n}`));
}, 60_000);

test('20 concurrent claimers never share an effect, and together get all of them', async () => {
  await fill(...Array.from({ length: 200 }, (_, n) => `r/${n % 7}`));
  const claimed = await Promise.all(
    Array.from({ length: 20 }, async () => {
      const mine = [];
      for (;;) {
        const effects = await claim(5);
        if (effects.length === 0) return mine;
        mine.push(...effects);
      }
    }),
  );
  expect(new Set(claimed.flat().map(({ effectId }) => effectId)).size).toBe(200);
  expect(claimed.flat()).toHaveLength(200);
});

test('caps and pauses hold, and a saturated repo in front does not hide the others', async () => {
  await database.db
    .insertInto('repo')
    .values([
      { repo_id: 'r/capped', cap: 2 },
      { repo_id: 'r/paused', paused_at: new Date() },
    ])
    .execute();
  await fill('r/paused', ...Array.from({ length: 50 }, () => 'r/capped'), 'r/free');
  const claimed = (await Promise.all(Array.from({ length: 10 }, () => claim(3)))).flat();
  const more = [...(await claim(3)), ...(await claim(3))];
  const byRepo = Map.groupBy([...claimed, ...more], ({ repoId }) => repoId);
  const counts = new Map([...byRepo].map(([repoId, effects]) => [repoId, effects.length]));
  expect(counts).toEqual(
    new Map([
      ['r/capped', 2],
      ['r/free', 1],
    ]),
  );
});

test('the global cap holds among concurrent claimers', async () => {
  await database.db.updateTable('queue_limit').set({ global_cap: 5 }).execute();
  await fill(...Array.from({ length: 40 }, (_, n) => `r/${n}`));
  const claimed = (await Promise.all(Array.from({ length: 10 }, () => claim(2)))).flat();
  expect(claimed.length).toBeLessThanOrEqual(5);
  expect(claimed.length + (await claim(10)).length).toBe(5);
  expect(await claim(1)).toEqual([]);
});

test('a scheduled effect is claimed when it is due', async () => {
  await enqueueEffects(database.db, [{ repoId: 'r/1', payload: 'later', delayMs: 3_600_000 }]);
  expect(await claim(1)).toEqual([]);
  await sql`update ${sql.id(SCHEMA, 'effect_queue')} set run_at = now() - interval '1 second'`.execute(
    database.db,
  );
  expect(payloads(await claim(1))).toEqual(['later']);
});

test('while another transaction claims from every repo in front, it waits for the first of them', async () => {
  await fill('r/1', 'r/1');
  let second: ReturnType<typeof claim> | undefined;
  await database.db.transaction().execute(async (trx) => {
    expect(payloads(await dispatcherClaim(trx, { claimedBy: 'a', limit: 1, excludeRepos: [] }))).toEqual([
      '0',
    ]);
    second = claim(1);
    await untilTurnsAreWaitedFor(1);
  });
  expect(payloads(await second!)).toEqual(['1']);
});

test('a claim that waits for a turn is not waited for by whoever has it and cancels what is due', async () => {
  const { db } = database;
  const [first, due] = await enqueueEffects(db, [
    { repoId: 'r/1', payload: 'first' },
    { repoId: 'r/1', payload: 'due', delayMs: 3_600_000 },
    { repoId: 'r/1', payload: 'last' },
  ]);
  await sql`update ${table('effect_queue')} set run_at = now() - interval '1 second'
             where run_at is not null`.execute(db);
  const cancel = (trx: typeof db, { effectId }: NonNullable<typeof due>) =>
    cancelEffects(trx, { repoId: 'r/1', effectIds: [effectId], reason: 'changed my mind' });
  const waiting = await db.transaction().execute(async (trx) => {
    expect(await cancel(trx, first!)).toEqual([first!.effectId]);
    const claiming = claim(10);
    await untilTurnsAreWaitedFor(1);
    expect(await cancel(trx, due!)).toEqual([due!.effectId]);
    return [claiming];
  });
  expect(payloads(await waiting[0]!)).toEqual(['last']);
});

test('a global cap that is set while claims wait for their turns is not counted by each of them alone', async () => {
  const { db } = database;
  await fill('r/1', 'r/2', 'r/1', 'r/2');
  const claimed = await db.transaction().execute(async (one) => {
    await claimEffects(one, { repoId: 'r/1', claimedBy: 'a', limit: 1 });
    const claims = await db.transaction().execute(async (two) => {
      await claimEffects(two, { repoId: 'r/2', claimedBy: 'a', limit: 1 });
      const inTurn = [claim(1, ['r/2']), claim(1, ['r/1'])];
      await untilTurnsAreWaitedFor(2);
      await db.updateTable('queue_limit').set({ global_cap: 3 }).execute();
      return inTurn;
    });
    return claims;
  });
  await Promise.all(claimed);
  const { rows } = await sql`select from ${table('effect_claim')}`.execute(db);
  expect(rows.length).toBeLessThanOrEqual(3);
});

async function untilTurnsAreWaitedFor(count: number): Promise<void> {
  const waiting = async () => {
    const { rows } = await sql<{ n: number }>`
      select count(*)::int as n from pg_locks l join pg_database d on d.oid = l.database
       where not l.granted and l.locktype = 'advisory' and d.datname = current_database()`.execute(
      database.db,
    );
    return rows[0]!.n;
  };
  await expect.poll(waiting, { timeout: 20_000 }).toBe(count);
}
