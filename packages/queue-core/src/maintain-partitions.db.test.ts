import { createDatabase, isRetryable, table, type DB } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql, type Kysely, type QueryId, type RawNode } from 'kysely';
import { beforeEach, expect, test, vi } from 'vitest';
import { claimSome, emptyQueue, fillQueue } from '../test/fill-queue.ts';
import { addDays, partitionName, DAILY_TABLES, qualified } from './day-partition.ts';
import { finishClaims } from './finish-claims.ts';
import { maintainPartitions } from './maintain-partitions.ts';

const database = useTestDatabase();
const [HISTORY, LOG] = DAILY_TABLES;

beforeEach(async () => {
  await emptyQueue(database.db);
  for (const parent of DAILY_TABLES) {
    for (const name of await partitions(parent.name)) {
      if (!name.endsWith('_default')) await sql`drop table ${qualified(name)}`.execute(database.db);
    }
  }
});

async function partitions(parent: string): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`
    select inhrelid::regclass::text as name from pg_inherits
     where inhparent = ${`sluice.${parent}`}::text::regclass order by 1`.execute(database.db);
  return rows.map((row) => row.name.replace('sluice.', ''));
}

async function today(db: Kysely<DB> = database.db): Promise<string> {
  const { rows } = await sql<{ day: string }>`select (now() at time zone 'UTC')::date::text as day`.execute(
    db,
  );
  return rows[0]!.day;
}

/** A day can end while a test runs; what was made before is then yesterday's. */
async function onOneDay(run: (day: string) => Promise<void>): Promise<void> {
  const day = await today();
  try {
    await run(day);
  } catch (error) {
    if ((await today()) === day) throw error;
  }
}

async function finish(effectId: bigint, at: string): Promise<void> {
  await sql`insert into ${table('effect_history')}
    (effect_id, repo_id, name, payload, state, outcome, priority, attempts, max_attempts, enqueued_at, finished_at)
    values (${effectId}, 'a', '', '', 'done', 'pass', 0, 1, 3, ${at}, ${at})`.execute(database.db);
}

async function rowsIn(name: string): Promise<number> {
  const { rows } = await sql<{
    count: number;
  }>`select count(*)::int as count from ${qualified(name)}`.execute(database.db);
  return rows[0]!.count;
}

test('makes today and the days ahead once, and rows go where they belong', () =>
  onOneDay(async (day) => {
    const names = [HISTORY!, LOG!].flatMap((parent) =>
      [0, 1, 2].map((ahead) => partitionName(parent, addDays(day, ahead))),
    );
    const first = await maintainPartitions(database.db, { daysAhead: 2, retentionDays: 30 });
    expect(first).toEqual({ created: names, dropped: [], skipped: [], rowsDeleted: 0, dedupKeysFreed: 0 });
    const again = await maintainPartitions(database.db, { daysAhead: 2, retentionDays: 30 });
    expect(again.created).toEqual([]);
    await finish(1n, `${day} 00:00:00+00`);
    await finish(2n, `${addDays(day, 1)} 23:59:59.999999+00`);
    await finish(3n, `${addDays(day, 3)} 00:00:00+00`);
    expect(await rowsIn(names[0]!)).toBe(1);
    expect(await rowsIn(names[1]!)).toBe(1);
    expect(await rowsIn('effect_history_default')).toBe(1);
  }));

test('rows that came before their partition move into it; too many stay, and that day is skipped', () =>
  onOneDay(async (day) => {
    const [now, next] = [partitionName(HISTORY!, day), partitionName(HISTORY!, addDays(day, 1))];
    await finish(1n, `${day} 12:00:00+00`);
    await sql`insert into ${table('effect_history')}
      (effect_id, repo_id, name, payload, state, outcome, priority, attempts, max_attempts, enqueued_at, finished_at)
      select n, 'a', '', '', 'done', 'pass', 0, 1, 3, t, t
        from generate_series(10, 20010) n, (select ${`${addDays(day, 1)} 01:00:00+00`}::timestamptz as t) at`.execute(
      database.db,
    );
    const done = await maintainPartitions(database.db, { daysAhead: 2, retentionDays: 30 });
    expect(done.skipped).toEqual([next]);
    expect(done.created).toContain(now);
    expect(await rowsIn(now)).toBe(1);
    expect(await rowsIn('effect_history_default')).toBe(20_001);
    expect(await rowsIn('effect_history')).toBe(20_002);
  }));

test('drops what ended before the retention, with rows outside partitions and dedup keys of that age', () =>
  onOneDay(async (day) => {
    const [old, kept] = [addDays(day, -31), addDays(day, -30)];
    for (const made of [old, kept]) await makeDay(made);
    await finish(1n, `${old} 12:00:00+00`);
    await finish(2n, `${addDays(day, -99)} 12:00:00+00`);
    const key = { repo_id: 'a', effect_id: 1n, is_retained: true };
    await database.db
      .insertInto('effect_dedup')
      .values([
        { ...key, dedup_key: 'old', done_at: `${old} 12:00:00+00` },
        { ...key, dedup_key: 'recent', done_at: `${kept} 12:00:00+00` },
        { ...key, dedup_key: 'unfinished', done_at: null },
      ])
      .execute();
    const done = await maintainPartitions(database.db, { daysAhead: 0, retentionDays: 30 });
    expect(done.dropped).toEqual(DAILY_TABLES.map((parent) => partitionName(parent, old)));
    expect(done).toMatchObject({ rowsDeleted: 1, dedupKeysFreed: 1 });
    expect(await partitions('effect_history')).toContain(partitionName(HISTORY!, kept));
    expect(await rowsIn('effect_history')).toBe(0);
    const left = await database.db
      .selectFrom('effect_dedup')
      .select('dedup_key')
      .orderBy('dedup_key')
      .execute();
    expect(left.map((row) => row.dedup_key)).toEqual(['recent', 'unfinished']);
  }));

async function makeDay(day: string): Promise<void> {
  for (const parent of DAILY_TABLES) {
    await sql`create table ${qualified(partitionName(parent, day))} partition of ${table(parent.name)}
      for values from (${sql.lit(`${day} 00:00:00+00`)}) to (${sql.lit(`${addDays(day, 1)} 00:00:00+00`)})`.execute(
      database.db,
    );
  }
}

const namesOf = (day: string): string[] => DAILY_TABLES.map((parent) => partitionName(parent, day));

test('after a gap, as a clock set forward by a year leaves, one day goes with each call', () =>
  onOneDay(async (day) => {
    const [first, second, third] = [0, 1, 2].map((later) => addDays(day, -400 + later)) as [
      string,
      string,
      string,
    ];
    for (const made of [first, second, third]) await makeDay(made);
    await finish(1n, `${second} 12:00:00+00`);
    await database.db
      .insertInto('effect_dedup')
      .values(
        [first, second].map((done) => ({
          repo_id: 'a',
          effect_id: 1n,
          is_retained: true,
          dedup_key: done,
          done_at: `${done} 12:00:00+00`,
        })),
      )
      .execute();
    const call = () => maintainPartitions(database.db, { daysAhead: 0, retentionDays: 30 });
    expect(await call()).toMatchObject({ dropped: namesOf(first), dedupKeysFreed: 1 });
    expect(await rowsIn('effect_history')).toBe(1);
    expect(await call()).toMatchObject({ dropped: namesOf(second), dedupKeysFreed: 1 });
    expect((await call()).dropped).toEqual(namesOf(third));
    expect((await call()).dropped).toEqual([]);
  }));

test('a retention that was shortened holds at once: no day is missing then', () =>
  onOneDay(async (day) => {
    for (let ago = 6; ago > 0; ago -= 1) await makeDay(addDays(day, -ago));
    const { dropped } = await maintainPartitions(database.db, { daysAhead: 0, retentionDays: 2 });
    const gone = [6, 5, 4, 3].map((ago) => namesOf(addDays(day, -ago)));
    expect(dropped.toSorted()).toEqual(gone.flat().toSorted());
  }));

test('a table that somebody reads for long is skipped, and made by the next call', () =>
  onOneDay(async (day) => {
    const name = partitionName(HISTORY!, day);
    await database.db.transaction().execute(async (reader) => {
      await reader.selectFrom('effect_history').select('effect_id').execute();
      const done = await maintainPartitions(database.db, { daysAhead: 0, retentionDays: 30 });
      expect(done.skipped).toEqual([name]);
      expect(done.created).toEqual([partitionName(LOG!, day)]);
    });
    expect((await maintainPartitions(database.db, { daysAhead: 0, retentionDays: 30 })).created).toEqual([
      name,
    ]);
  }));

test('upkeep that stands still while it has the tables locked is ended, and completions go on', () =>
  onOneDay(async (day) => {
    await fillQueue(database.db, 'a', 1);
    const claims = await claimSome(database.db, 'a', 1);
    const locked = Promise.withResolvers<void>();
    const awake = Promise.withResolvers<void>();
    let locking: QueryId | undefined;
    const standsStill = database.db.withPlugin({
      transformQuery({ node, queryId }) {
        if (node.kind === 'RawNode' && /access exclusive/.test((node as RawNode).sqlFragments.join('')))
          locking = queryId;
        return node;
      },
      async transformResult({ result, queryId }) {
        if (queryId === locking) {
          locked.resolve();
          await awake.promise;
        }
        return result;
      },
    });
    const upkeep = maintainPartitions(standsStill, { daysAhead: 0, retentionDays: 30 });
    upkeep.catch(() => undefined);
    await locked.promise;
    const completions = claims.map((claim) => ({ claim, state: 'done' as const, outcome: 'pass' as const }));
    expect(await finishClaims(database.db, completions)).toHaveLength(1);
    awake.resolve();
    await expect(upkeep).rejects.toSatisfy(isRetryable);
    expect(await partitions('effect_history')).not.toContain(partitionName(HISTORY!, day));
  }));

test('several callers at once make each partition once', () =>
  onOneDay(async () => {
    const calls = await Promise.all(
      [1, 2, 3, 4].map(() => maintainPartitions(database.db, { daysAhead: 3, retentionDays: 30 })),
    );
    const created = calls.flatMap((call) => call.created);
    expect(new Set(created).size).toBe(created.length);
    expect(await partitions('effect_history')).toHaveLength(5);
    expect(await partitions('effect_log')).toHaveLength(5);
  }));

test('claims and completions go on meanwhile, and none is lost', () =>
  onOneDay(async () => {
    const COUNT = 400;
    await fillQueue(database.db, 'a', COUNT);
    const worker = createDatabase({
      connectionString: database.url,
      applicationName: 'worker',
      connectionsMax: 1,
    });
    try {
      const finished: bigint[] = [];
      const work = async () => {
        for (;;) {
          const claims = await claimSome(worker, 'a', 4);
          if (claims.length === 0) return;
          finished.push(
            ...(await finishClaims(
              worker,
              claims.map((claim) => ({ claim, state: 'done', outcome: 'pass' })),
            )),
          );
        }
      };
      const [, ...upkeep] = await Promise.all([
        work(),
        maintainPartitions(database.db, { daysAhead: 4, retentionDays: 30 }),
        maintainPartitions(database.db, { daysAhead: 4, retentionDays: 30 }),
      ]);
      // A completion of an unlucky moment may have kept the day from being made; the next call makes it.
      await maintainPartitions(database.db, { daysAhead: 4, retentionDays: 30 });
      expect(upkeep.flatMap((done) => done.dropped)).toEqual([]);
      expect(finished).toHaveLength(COUNT);
      expect(await rowsIn('effect_history')).toBe(COUNT);
      expect(await rowsIn('effect_history_default')).toBe(0);
      expect(await partitions('effect_history')).toHaveLength(6);
    } finally {
      await worker.destroy();
    }
  }));

test('a claim is not held up by upkeep that waits for a reader', async () => {
  await fillQueue(database.db, 'a', 1);
  await database.db.transaction().execute(async (reader) => {
    await reader.selectFrom('effect_history').select('effect_id').execute();
    const upkeep = maintainPartitions(database.db, { daysAhead: 0, retentionDays: 30 });
    expect(await claimSome(database.db, 'a', 1)).toHaveLength(1);
    await upkeep;
  });
});

test('no completion is refused because its partition was attached in that moment', () =>
  onOneDay(async () => {
    const COUNT = 400;
    const worker = createDatabase({
      connectionString: database.url,
      applicationName: 'worker',
      connectionsMax: 8,
    });
    try {
      await fillQueue(database.db, 'a', COUNT);
      const claims = await claimSome(database.db, 'a', COUNT);
      const finishOneByOne = async (): Promise<void> => {
        for (let claim = claims.pop(); claim !== undefined; claim = claims.pop()) {
          await finishClaims(worker, [{ claim, state: 'done', outcome: 'pass' }]);
        }
      };
      await Promise.all([
        ...Array.from({ length: 8 }, finishOneByOne),
        maintainPartitions(database.db, { daysAhead: 0, retentionDays: 30 }),
      ]);
      expect(await rowsIn('effect_history')).toBe(COUNT);
    } finally {
      await worker.destroy();
    }
  }));

test('a reader that comes while rows move into their partition finds them', () =>
  onOneDay(async (day) => {
    await finish(1n, `${day} 12:00:00+00`);
    const { db } = database;
    const reader = createDatabase({ connectionString: database.url, applicationName: 'reader' });
    try {
      // Upkeep stands still after the rows were moved and before the end of its transaction, until the gate is open.
      await sql`create function at_the_gate() returns event_trigger language plpgsql as $$
        begin
          while not pg_try_advisory_xact_lock(7) loop perform pg_sleep(0.01); end loop;
        end $$`.execute(db);
      await sql`create event trigger at_the_gate on ddl_command_end when tag in ('ALTER TABLE')
        execute function at_the_gate()`.execute(db);
      const [upkeep, found] = await db.transaction().execute(async (gate) => {
        await sql`select pg_advisory_xact_lock(7)`.execute(gate);
        const started = maintainPartitions(db, { daysAhead: 0, retentionDays: 30 });
        await untilOneWaits('test', 'PgSleep');
        const read = reader.selectFrom('effect_history').select('effect_id').execute();
        await untilOneWaits('reader', 'relation');
        return [started, read];
      });
      expect((await upkeep).created).toContain(partitionName(HISTORY!, day));
      expect(await found).toEqual([{ effect_id: 1n }]);
    } finally {
      await sql`drop function if exists at_the_gate() cascade`.execute(db);
      await reader.destroy();
    }
  }));

async function untilOneWaits(applicationName: string, waitEvent: string): Promise<void> {
  await vi.waitFor(
    async () => {
      const { rows } = await sql`select from pg_stat_activity
        where datname = current_database() and application_name = ${applicationName}
          and wait_event = ${waitEvent}`.execute(database.db);
      expect(rows).toHaveLength(1);
    },
    { timeout: 8_000, interval: 10 },
  );
}
