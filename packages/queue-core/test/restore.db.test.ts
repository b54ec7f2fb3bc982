import { assertUsable, createDatabase, migrate, SCHEMA, table, type DB } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql, type Kysely } from 'kysely';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { appendLog } from '../src/append-log.ts';
import { dispatcherComplete } from '../src/dispatcher-complete.ts';
import { registerDispatcher } from '../src/dispatcher-lease.ts';
import { enqueueEffect } from '../src/enqueue-effect.ts';
import { enqueueEffects } from '../src/enqueue-effects.ts';
import { fairClaim } from '../src/fair-claim.ts';
import { findEffect } from '../src/find-effect.ts';
import { maintainPartitions } from '../src/maintain-partitions.ts';
import { readLog } from '../src/read-log.ts';
import { opRecords, recordOp } from '../src/record-op.ts';
import { dispatcherRequeueStale } from '../src/requeue-stale.ts';
import { claimSome, openClaims } from './fill-queue.ts';

const database = useTestDatabase();
const restored: string[] = [];
const OP = 'a'.repeat(40);
let finished: Awaited<ReturnType<typeof claimSome>>[number];

beforeAll(async () => {
  const { db } = database;
  await maintainPartitions(db, { daysAhead: 1, retentionDays: 30 });
  await db.insertInto('repo').values({ repo_id: 'a', cap: 7, weight: 3 }).execute();
  await recordOp(db, { repoId: 'a', opOid: OP });
  await enqueueEffects(
    db,
    Array.from({ length: 20 }, (_, n) => ({
      repoId: 'a',
      payload: `{"quote":"\\" ${n} \\\\ é 🦑","null":"\\\\N"}`,
      dedupKey: `k${n}`,
      retainDedupKey: true,
      ...(n > 15 ? { delayMs: 3_600_000 } : {}),
    })),
  );
  const lost = await registerDispatcher(db, { host: 'h', pid: 1, slots: 9, leaseMs: 1 });
  const claims = await claimSome(db, 'a', 4, lost);
  finished = claims[0]!;
  await appendLog(db, finished, [{ seq: 1, bytes: Buffer.from([0, 92, 255]) }]);
  await dispatcherComplete(db, finished);
});
afterAll(async () => {
  for (const name of restored) await sql`drop database ${sql.id(name)} with (force)`.execute(database.db);
});

/** As a dump and its restore do: a fresh schema, and every row of every table in the form that COPY would give it. */
async function restore({ sequences }: { sequences: boolean }): Promise<Kysely<DB>> {
  const name = `${new URL(database.url).pathname.slice(1)}_r${restored.length}`;
  await sql`create database ${sql.id(name)} template template0`.execute(database.db);
  restored.push(name);
  const url = new URL(database.url);
  url.pathname = `/${name}`;
  const db = createDatabase({ connectionString: url.href, applicationName: 'test' });
  await migrate(db);
  const { rows: tables } = await sql<{ name: string }>`
    select relname::text as name from pg_class
     where relnamespace = ${SCHEMA}::text::regnamespace and relkind in ('r', 'p') and not relispartition
       and relname not like 'kysely%'`.execute(database.db);
  await db.transaction().execute(async (trx) => {
    // The foreign keys of a dump are made when its rows are there.
    await sql`set local session_replication_role = replica`.execute(trx);
    for (const { name: each } of tables) {
      const full = sql.id(SCHEMA, each);
      const { rows } = await sql<{ rows: string[] }>`
        select coalesce(array_agg(t::text), '{}') as rows from ${full} t`.execute(database.db);
      await sql`delete from ${full}`.execute(trx);
      await sql`insert into ${full} overriding system value
        select (row::${full}).* from unnest(${rows[0]!.rows}::text[]) as row`.execute(trx);
    }
  });
  if (sequences) await copySequences(db);
  return db;
}

async function copySequences(db: Kysely<DB>): Promise<void> {
  for (const name of ['effect_id_seq', 'effect_claim_number_seq'] as const) {
    const { rows } = await sql<{ last: bigint }>`select last_value as last from ${table(name)}`.execute(
      database.db,
    );
    await sql`select setval(${`${SCHEMA}.${name}`}::text::regclass, ${rows[0]!.last}::bigint)`.execute(db);
  }
}

test('a restored database goes on where the other stopped, by itself', async () => {
  await using db = await restore({ sequences: true });
  await assertUsable(db);
  for (const name of ['effect_queue', 'effect_claim', 'effect_history', 'effect_dedup', 'repo'] as const) {
    const rows = (of: Kysely<DB>) => sql`select t::text as row from ${table(name)} t order by 1`.execute(of);
    expect((await rows(db)).rows, name).toEqual((await rows(database.db)).rows);
  }
  expect(await opRecords(db, { repoId: 'a' })).toMatchObject([{ opOid: OP, seq: 1n }]);
  expect(await findEffect(db, finished.effectId)).toMatchObject({ state: 'done', payload: finished.payload });
  const [chunk] = await readLog(db, { effectId: finished.effectId });
  expect([...chunk!.bytes]).toEqual([0, 92, 255]);

  // Keys hold: of what is done, what runs and what waits.
  for (const n of [0, 1, 5, 18]) {
    const holder = await enqueueEffect(db, { repoId: 'a', payload: '', dedupKey: `k${n}` });
    expect((await findEffect(db, holder))?.payload).toContain(` ${n} `);
  }
  // The dispatcher of before is dead by its lease; its claims come back, and are claimed under numbers of their own.
  expect(await dispatcherRequeueStale(db, { olderThanMs: 900_000 })).toBe(3);
  expect(await openClaims(db)).toEqual({});
  const turn = { claimedBy: 'w', turns: [{ repoId: 'a', want: 50 }], defaultCap: 50 };
  const { effects } = await fairClaim(db, turn);
  expect(effects.map(({ attempt }) => attempt)).toEqual([2, 2, 2, 1, 1, 1, 1]);
  expect(effects.every(({ claimNumber }) => claimNumber > finished.claimNumber + 3n)).toBe(true);
  expect(await dispatcherComplete(db, effects[0]!)).toBe('completed');
  const before = (
    await db.selectFrom('effect_queue').select('effect_id').orderBy('effect_id', 'desc').execute()
  )[0]!;
  const next = await enqueueEffect(db, { repoId: 'a', payload: 'next' });
  expect(next).toBeGreaterThan(before.effect_id);
  // Rows that came before the partition of their day move into it.
  const upkeep = await maintainPartitions(db, { daysAhead: 1, retentionDays: 30 });
  expect(upkeep.skipped).toEqual([]);
  expect(await findEffect(db, finished.effectId)).toMatchObject({ state: 'done' });
});

test('rows that came without their sequences are refused, since ids would be given twice, until it is migrated', async () => {
  await using db = await restore({ sequences: false });
  await expect(assertUsable(db)).rejects.toMatchObject({
    code: 'schema_out_of_date',
    message: expect.stringMatching(
      /^Schema \w+: expected effect ids to go on above 20, got a sequence that is behind.* Run sluice migrate/,
    ),
  });
  await migrate(db);
  await assertUsable(db);
  const turn = { claimedBy: 'w', turns: [{ repoId: 'a', want: 1 }], defaultCap: 50 };
  expect((await fairClaim(db, turn)).effects[0]!.claimNumber).toBe(5n);
  expect(await enqueueEffect(db, { repoId: 'a', payload: '' })).toBe(21n);
  await migrate(db);
  expect(await enqueueEffect(db, { repoId: 'a', payload: '' })).toBeGreaterThan(21n);
});

test('a migration sets no sequence back, of which more was drawn than there are rows', async () => {
  await using db = await restore({ sequences: true });
  const setSequence = (name: string, value: number) =>
    sql`select setval(${`${SCHEMA}.${name}`}::text::regclass, ${value}::bigint)`.execute(db);
  await setSequence('effect_id_seq', 1);
  await setSequence('effect_claim_number_seq', 500);
  await migrate(db);
  const turn = { claimedBy: 'w', turns: [{ repoId: 'a', want: 1 }], defaultCap: 50 };
  expect((await fairClaim(db, turn)).effects[0]!.claimNumber).toBe(501n);
});
