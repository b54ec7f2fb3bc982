import { inBoundedTransaction, SCHEMA, sqlState, table, type DB } from '@sluice/db';
import { sql, type Kysely, type Transaction } from 'kysely';
import { assertWhole } from './assert-argument.ts';
import {
  addDays,
  DAILY_TABLES,
  daysBetween,
  dayStart,
  partitionDay,
  partitionName,
  qualified,
  type DailyTable,
} from './day-partition.ts';

export interface PartitionUpkeep {
  /** Partitions made. */
  created: string[];
  /** Partitions dropped, with all they held. */
  dropped: string[];
  /** Partitions left as they are for now: somebody used the table for too long, or too many rows lie in the way. */
  skipped: string[];
  /** Rows past their time that lay outside the day partitions, and were deleted. */
  rowsDeleted: number;
  /** Dedup keys of effects done so long ago, now free. */
  dedupKeysFreed: number;
}

/** Any constant: one upkeep at a time per database. */
const UPKEEP_LOCK = 5_108_302_198n;

/** Whoever needs the table waits behind us while we wait for it, so this is the longest that upkeep delays anybody. */
const LOCK_TIMEOUT = '300ms';
const TRIES = 5;

/** Most rows moved out of the default partition for one day, under its lock; with more, the day stays there. */
const MOVE_MAX = 20_000;
const DELETE_BATCH = 5_000;
const DELETE_BATCHES_MAX = 1_000;
const DAYS_MAX = 3_650;

/**
 * Makes the day partitions of finished effects and of their output, for today and `daysAhead` days more, and drops
 * those that ended more than `retentionDays` days ago. Days are of UTC, by the database clock.
 *
 * Claims and enqueues never touch these tables. A completion may wait, for less than a second: a partition is made as
 * a table of its own and attached, which keeps writers and readers waiting; and what cannot be locked soon is skipped
 * until the next call. Each step is one transaction, so a crash leaves nothing half done; one that stands still in the
 * middle, as a frozen process does, is ended after 10 s, and its locks with it.
 * Several callers take turns.
 *
 * Where a day between the oldest partition and today has none, nobody did this for days, or the clock was set forward:
 * then one day goes with each call, so that a clock that is wrong for an hour does not cost the whole history.
 */
export async function maintainPartitions(
  db: Kysely<DB>,
  { daysAhead, retentionDays }: { daysAhead: number; retentionDays: number },
): Promise<PartitionUpkeep> {
  assertWhole('daysAhead', daysAhead, 0, 100);
  assertWhole('retentionDays', retentionDays, 1, DAYS_MAX);
  const done: PartitionUpkeep = { created: [], dropped: [], skipped: [], rowsDeleted: 0, dedupKeysFreed: 0 };
  const today = await databaseDay(db);
  const kept: string[] = [];
  for (const parent of DAILY_TABLES) {
    const existing = await partitionsOf(db, parent);
    const days = existing.flatMap((name) => partitionDay(parent, name) ?? []);
    const oldest = oldestKept(days, today, retentionDays);
    kept.push(oldest);
    for (let ahead = 0; ahead <= daysAhead; ahead += 1) {
      const day = addDays(today, ahead);
      const name = partitionName(parent, day);
      if (existing.includes(name)) continue;
      const result = await patiently(db, (trx) => createPartition(trx, parent, day));
      if (result === 'created') done.created.push(name);
      else if (result !== 'exists') done.skipped.push(name);
    }
    for (const name of existing) {
      const day = partitionDay(parent, name);
      if (day === undefined || day >= oldest) continue;
      const result = await patiently(db, (trx) => dropPartition(trx, name));
      if (result === 'dropped') done.dropped.push(name);
      else if (result === 'locked') done.skipped.push(name);
    }
    done.rowsDeleted += await deleteInBatches(db, `${parent.name}_default`, parent.at, oldest);
  }
  done.dedupKeysFreed = await deleteInBatches(db, 'effect_dedup', 'done_at', kept.toSorted()[0]!);
  return done;
}

/** The first day to keep, given the days that have a partition. */
function oldestKept(days: readonly string[], today: string, retentionDays: number): string {
  const oldest = addDays(today, -retentionDays);
  const [first] = days.toSorted();
  if (first === undefined || first >= oldest) return oldest;
  const isWithoutGap = days.filter((day) => day < today).length === daysBetween(first, today);
  return isWithoutGap ? oldest : addDays(first, 1);
}

async function databaseDay(db: Kysely<DB>): Promise<string> {
  const { rows } = await sql<{ day: string }>`
    select to_char(statement_timestamp() at time zone 'UTC', 'YYYY-MM-DD') as day`.execute(db);
  return rows[0]!.day;
}

async function partitionsOf(db: Kysely<DB>, parent: DailyTable): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`
    select child.relname::text as name
      from pg_inherits i
      join pg_class child on child.oid = i.inhrelid
     where i.inhparent = ${`${SCHEMA}.${parent.name}`}::text::regclass
     order by child.relname`.execute(db);
  return rows.map((row) => row.name);
}

/** Runs one step under a short lock timeout, a few times over; 'locked': it never got what it needed. */
async function patiently<T>(
  db: Kysely<DB>,
  step: (trx: Transaction<DB>) => Promise<T>,
): Promise<T | 'locked'> {
  for (let attempt = 1; attempt <= TRIES; attempt += 1) {
    try {
      return await inBoundedTransaction(db, async (trx) => {
        // Other callers are waited for; they are quick. Users of the tables are not.
        await sql`select set_config('lock_timeout', '10s', true)`.execute(trx);
        await sql`select pg_advisory_xact_lock(${UPKEEP_LOCK})`.execute(trx);
        await sql`select set_config('lock_timeout', ${LOCK_TIMEOUT}, true)`.execute(trx);
        return await step(trx);
      });
    } catch (error) {
      if (!LOCKED.has(sqlState(error) ?? '') || db.isTransaction) throw error;
    }
  }
  return 'locked';
}

/** lock_not_available, deadlock_detected. */
const LOCKED = new Set(['55P03', '40P01']);

async function createPartition(
  trx: Transaction<DB>,
  parent: DailyTable,
  day: string,
): Promise<'created' | 'exists' | 'crowded'> {
  const name = partitionName(parent, day);
  if ((await partitionsOf(trx, parent)).includes(name)) return 'exists';
  const fallback = qualified(`${parent.name}_default`);
  const [from, to] = [dayStart(day), dayStart(addDays(day, 1))];
  const inDay = sql`${sql.ref(parent.at)} >= ${from} and ${sql.ref(parent.at)} < ${to}`;
  const rowsInTheWay = sql<{ count: number }>`
    select count(*)::int as count from (select from ${fallback} where ${inDay} limit ${MOVE_MAX + 1}::int) rows`;
  // First without a lock, so that a full default partition is never locked in vain.
  if ((await rowsInTheWay.execute(trx)).rows[0]!.count > MOVE_MAX) return 'crowded';
  await sql`create table ${qualified(name)}
    (like ${table(parent.name)} including defaults including constraints including indexes including storage)`.execute(
    trx,
  );
  // The table itself first: whoever has it already, and waits for the default partition only, would go on with the list
  // of partitions of before. A writer would be refused there, "violates partition constraint"; a reader would not find
  // the rows that were moved meanwhile.
  await sql`lock table only ${table(parent.name)} in access exclusive mode`.execute(trx);
  await sql`lock table ${fallback} in access exclusive mode`.execute(trx);
  if ((await rowsInTheWay.execute(trx)).rows[0]!.count > 0) {
    await sql`with moved as (delete from ${fallback} where ${inDay} returning *)
      insert into ${qualified(name)} select * from moved`.execute(trx);
  }
  await sql`alter table ${table(parent.name)} attach partition ${qualified(name)}
    for values from (${from}) to (${to})`.execute(trx);
  return 'created';
}

async function dropPartition(trx: Transaction<DB>, name: string): Promise<'dropped' | 'gone'> {
  const found = await sql<{ is_there: boolean }>`
    select to_regclass(${`${SCHEMA}.${name}`}) is not null as is_there`.execute(trx);
  if (!found.rows[0]!.is_there) return 'gone';
  await sql`drop table ${qualified(name)}`.execute(trx);
  return 'dropped';
}

/** Deletes rows of before a day, a batch per statement, so that no lock is held for long. */
async function deleteInBatches(db: Kysely<DB>, name: string, at: string, day: string): Promise<number> {
  let total = 0;
  for (let batch = 0; batch < DELETE_BATCHES_MAX; batch += 1) {
    const { numAffectedRows } = await sql`
      delete from ${qualified(name)}
       where ctid = any(array(select ctid from ${qualified(name)}
                               where ${sql.ref(at)} < ${dayStart(day)}
                               limit ${DELETE_BATCH}::int for update skip locked))`.execute(db);
    const deleted = Number(numAffectedRows ?? 0n);
    total += deleted;
    if (deleted < DELETE_BATCH) break;
  }
  return total;
}
