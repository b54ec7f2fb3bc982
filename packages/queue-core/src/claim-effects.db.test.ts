import { createDatabase, isRetryable, SCHEMA, sluice, type DB } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { Kysely, PostgresDialect, sql } from 'kysely';
import pg from 'pg';
import { expect, test } from 'vitest';
import { claimEffects, claimStatement } from './claim-effects.ts';
import { completeEffect } from './complete-effect.ts';
import { enqueueEffect } from './enqueue-effect.ts';
import { enqueueEffects } from './enqueue-effects.ts';
import { lockTurns } from './turn-lock.ts';

const database = useTestDatabase();
let repos = 0;
const freshRepo = () => `claim/${(repos += 1)}`;
const fill = (repoId: string, count: number) =>
  enqueueEffects(
    database.db,
    Array.from({ length: count }, (_, index) => ({ repoId, payload: `${index}` })),
  );
const claim = (repoId: string, limit: number, claimedBy = 'test') =>
  claimEffects(database.db, { repoId, claimedBy, limit });

test('claims by priority, then age, and returns all that running an effect takes', async () => {
  const repoId = freshRepo();
  const [old, , urgent] = await enqueueEffects(database.db, [
    { repoId, payload: 'old', name: 'build', pushId: 'p1', maxAttempts: 5 },
    { repoId, payload: 'patient', priority: -1 },
    { repoId, payload: 'urgent', priority: 9 },
    { repoId, payload: 'new' },
  ]);
  const effects = await claim(repoId, 2, 'worker-1');
  expect(effects).toEqual([
    {
      effectId: urgent!.effectId,
      repoId,
      claimNumber: expect.any(BigInt),
      attempt: 1,
      claimant: 'worker-1',
      name: '',
      payload: 'urgent',
      maxAttempts: 3,
      pushId: null,
    },
    expect.objectContaining({
      effectId: old!.effectId,
      payload: 'old',
      name: 'build',
      pushId: 'p1',
      maxAttempts: 5,
    }),
  ]);
  expect(effects[1]!.claimNumber).toBe(effects[0]!.claimNumber + 1n);
  expect((await claim(repoId, 10)).map(({ payload }) => payload)).toEqual(['new', 'patient']);
  expect(await claim(repoId, 10)).toEqual([]);
});

test('a scheduled effect is claimed once it is due, in its turn', async () => {
  const repoId = freshRepo();
  await enqueueEffects(database.db, [
    { repoId, payload: 'due', delayMs: 3_600_000, priority: 1 },
    { repoId, payload: 'later', delayMs: 7_200_000 },
    { repoId, payload: 'now' },
  ]);
  await sql`update ${sql.id(SCHEMA, 'effect_queue')} set run_at = run_at - interval '90 minutes'
             where repo_id = ${repoId} and run_at is not null`.execute(database.db);
  expect((await claim(repoId, 10)).map(({ payload }) => payload)).toEqual(['due', 'now']);
});

test('20 concurrent claimers never share an effect, and together get all of them', async () => {
  const repoId = freshRepo();
  await fill(repoId, 200);
  const claimed = await Promise.all(
    Array.from({ length: 20 }, async (_, nth) => {
      const mine = [];
      for (;;) {
        const effects = await claim(repoId, 3, `worker-${nth}`);
        if (effects.length === 0) return mine;
        mine.push(...effects);
      }
    }),
  );
  const ids = claimed.flat().map(({ effectId }) => effectId);
  expect(ids).toHaveLength(200);
  expect(new Set(ids).size).toBe(200);
});

test('the cap holds exactly among concurrent claimers, and a completion makes room', async () => {
  const repoId = freshRepo();
  await database.db.insertInto('repo').values({ repo_id: repoId, cap: 3 }).execute();
  await fill(repoId, 20);
  const claimed = (await Promise.all(Array.from({ length: 10 }, () => claim(repoId, 2)))).flat();
  expect(claimed).toHaveLength(3);
  await completeEffect(database.db, claimed[0]!);
  expect(await claim(repoId, 10)).toHaveLength(1);
});

test('a claim in an open transaction counts for those who come after it', async () => {
  const repoId = freshRepo();
  await database.db.insertInto('repo').values({ repo_id: repoId, cap: 1 }).execute();
  await fill(repoId, 5);
  let second: ReturnType<typeof claim> | undefined;
  await database.db.transaction().execute(async (trx) => {
    expect(await claimEffects(trx, { repoId, claimedBy: 'first', limit: 1 })).toHaveLength(1);
    second = claim(repoId, 1, 'second');
    await expect.poll(() => waitingForLocks(), { timeout: 20_000 }).toBe(1);
  });
  expect(await second).toEqual([]);
});

test('a claimer that holds the turn for ever is not waited for for ever', async () => {
  const repoId = freshRepo();
  await fill(repoId, 1);
  await database.db.transaction().execute(async (holder) => {
    await lockTurns(holder, [repoId]);
    await expect(claim(repoId, 1)).rejects.toSatisfy(isRetryable);
  });
  expect(await claim(repoId, 1)).toHaveLength(1);
});

async function waitingForLocks(): Promise<number> {
  const { rows } = await sql<{ n: number }>`
    select count(*)::int as n from pg_locks
     where not granted and locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`.execute(
    database.db,
  );
  return rows[0]!.n;
}

test('the global cap holds among concurrent claimers of different repos', async () => {
  const [open] = await sql<{ n: number }>`select count(*)::int as n from ${sql.id(SCHEMA, 'effect_claim')}`
    .execute(database.db)
    .then(({ rows }) => rows);
  await database.db
    .updateTable('queue_limit')
    .set({ global_cap: open!.n + 4 })
    .execute();
  try {
    const ids = Array.from({ length: 10 }, freshRepo);
    for (const repoId of ids) await fill(repoId, 3);
    const claimed = await Promise.all(ids.map((repoId) => claim(repoId, 2)));
    expect(claimed.flat()).toHaveLength(4);
  } finally {
    await database.db.updateTable('queue_limit').set({ global_cap: null }).execute();
  }
});

test('a paused repo yields nothing until it is resumed; an unknown one nothing at all', async () => {
  const repoId = freshRepo();
  await fill(repoId, 1);
  await database.db.insertInto('repo').values({ repo_id: repoId, paused_at: new Date() }).execute();
  expect(await claim(repoId, 1)).toEqual([]);
  await database.db.updateTable('repo').set({ paused_at: null }).where('repo_id', '=', repoId).execute();
  expect(await claim(repoId, 1)).toHaveLength(1);
  expect(await claim('no/such', 1)).toEqual([]);
});

test('a rolled back claim leaves the effect waiting, its attempt unspent', async () => {
  const repoId = freshRepo();
  await fill(repoId, 1);
  const attempt = database.db.transaction().execute(async (trx) => {
    expect(await claimEffects(trx, { repoId, claimedBy: 'w', limit: 1 })).toHaveLength(1);
    throw new Error('no');
  });
  await expect(attempt).rejects.toThrow('no');
  expect(await claim(repoId, 1)).toMatchObject([{ attempt: 1 }]);
});

test('a snapshot that may be older than the lock is refused', async () => {
  const attempt = database.db
    .transaction()
    .setIsolationLevel('repeatable read')
    .execute((trx) => claimEffects(trx, { repoId: freshRepo(), claimedBy: 'w', limit: 1 }));
  await expect(attempt).rejects.toMatchObject({ code: 'wrong_isolation' });
});

test('works inside a transaction of a Kysely instance that knows nothing of Sluice', async () => {
  interface Theirs {
    invoice: { id: number };
  }
  const pool = new pg.Pool({ connectionString: database.url, max: 2, options: '-c search_path=theirs' });
  const theirs = new Kysely<Theirs>({ dialect: new PostgresDialect({ pool }) });
  try {
    await sql`create schema theirs`.execute(theirs);
    await sql`create table theirs.invoice (id integer primary key)`.execute(theirs);
    const repoId = freshRepo();
    const id = await theirs.transaction().execute(async (trx) => {
      await trx.insertInto('invoice').values({ id: 1 }).execute();
      return await enqueueEffect(sluice(trx), {
        repoId,
        payload: 'send it',
        dedupKey: 'k',
        concurrencyGroup: 'g',
        supersede: true,
      });
    });
    expect(id).toEqual(expect.any(BigInt));
    const [effect] = await claimEffects(sluice(theirs), { repoId, claimedBy: 'w', limit: 1 });
    expect(effect).toMatchObject({ effectId: id, claimNumber: expect.any(BigInt), payload: 'send it' });
    expect(await completeEffect(sluice(theirs), effect!)).toBe('completed');
  } finally {
    await theirs.destroy();
  }
});

test('ids beyond 2^31 and 2^53 come through whole', async () => {
  const db = createDatabase({ connectionString: database.url, applicationName: 'test', connectionsMax: 1 });
  try {
    for (const start of [2_147_483_647n, 9_007_199_254_740_993n]) {
      const repoId = freshRepo();
      await db.transaction().execute(async (trx) => {
        await sql`select setval(${`${SCHEMA}.effect_id_seq`}::regclass, ${start}::bigint),
                         setval(${`${SCHEMA}.effect_claim_number_seq`}::regclass, ${start}::bigint)`.execute(
          trx,
        );
      });
      const all = await enqueueEffects(
        db,
        [1, 2, 3].map((n) => ({ repoId, payload: `${n}`, dedupKey: `${n}` })),
      );
      expect(all.map(({ effectId }) => effectId)).toEqual([start + 1n, start + 2n, start + 3n]);
      const effects = await claimEffects(db, { repoId, claimedBy: 'w', limit: 3 });
      expect(effects.map(({ claimNumber }) => claimNumber)).toEqual([start + 1n, start + 2n, start + 3n]);
      for (const effect of effects) expect(await completeEffect(db, effect)).toBe('completed');
    }
  } finally {
    await db.destroy();
  }
});

test.each([
  ['limit', { limit: 0 }],
  ['limit', { limit: -1 }],
  ['limit', { limit: Number.NaN }],
  ['limit', { limit: 10_001 }],
  ['claimedBy', { claimedBy: '' }],
  ['claimedBy', { claimedBy: 'a\0' }],
  ['repoId', { repoId: 'a b' }],
])('a wrong %s is refused by name: %o', async (field, wrong) => {
  const request = { repoId: 'a/b', claimedBy: 'w', limit: 1, ...wrong };
  await expect(claimEffects(database.db, request)).rejects.toMatchObject({
    code: 'invalid_argument',
    message: expect.stringMatching(new RegExp(`^${field}: expected `)),
  });
});

test('the statement, as it is sent', () => {
  const compiled = claimStatement({ repoId: 'r', claimedBy: 'w', limit: 2 }).compile(
    new Kysely<DB>({ dialect: new PostgresDialect({ pool: new pg.Pool() }) }),
  );
  expect(compiled.parameters).toEqual(['r', 'r', 2, 'w']);
  expect(compiled.sql.replace(/\s+/g, ' ')).toMatchInlineSnapshot(
    `" with picked as materialized ( select q.effect_id, q.repo_id, q.name, q.payload, q.attempts + 1 as attempt, q.max_attempts, q.push_id, q.priority from "sluice"."effect_queue" q where q.repo_id = $1 and q.run_at is null and q.effect_id not in (select c.effect_id from "sluice"."effect_claim" c where c.repo_id = $2) order by q.priority desc, q.effect_id limit $3 for update of q skip locked ), numbered as materialized ( select nextval('sluice.effect_claim_number_seq') as claim_number, $4::text as claimant, picked.* from picked ), kept as ( insert into "sluice"."effect_claim" (repo_id, claim_number, effect_id, attempt, claimant) select repo_id, claim_number, effect_id, attempt, claimant from numbered ) select effect_id::text, repo_id, claim_number::text, attempt, claimant, name, payload, max_attempts, push_id from numbered order by numbered.priority desc, numbered.effect_id"`,
  );
});

test.each(['on', 'off'])(
  "a caller's transaction keeps its planner settings: bitmap scans %s",
  async (was) => {
    const repoId = freshRepo();
    await fill(repoId, 1);
    const { rows } = await database.db.transaction().execute(async (trx) => {
      await sql`select set_config('enable_bitmapscan', ${was}, true)`.execute(trx);
      expect(await claimEffects(trx, { repoId, claimedBy: 'w', limit: 5 })).toHaveLength(1);
      expect(await claimEffects(trx, { repoId, claimedBy: 'w', limit: 5 })).toHaveLength(0);
      return await sql<{ value: string }>`select current_setting('enable_bitmapscan') as value`.execute(trx);
    });
    expect(rows).toEqual([{ value: was }]);
  },
);
