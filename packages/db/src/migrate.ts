import { setTimeout as sleep } from 'node:timers/promises';
import { migrationProvider } from '@sluice/migrations';
import { sql, type Kysely, type Transaction } from 'kysely';
import { Migrator, type Migration, type MigrationProvider, type MigrationResult } from 'kysely/migration';
import { assertSuitable } from './assert-suitable.ts';
import { orForbidden } from './forbidden.ts';
import { raiseSequences } from './lagging-sequences.ts';
import { sqlState } from './postgres-errors.ts';
import { SCHEMA } from './schema.ts';
import type { DB } from './tables.generated.ts';
import { inTransaction } from './transaction.ts';

/** Any constant: one migration at a time per database, whoever starts it. */
const MIGRATION_LOCK = 5_108_302_197n;

/**
 * A change of a table waits for everybody who has it open, and everybody who comes later waits behind the change. So it
 * waits for a moment only, lets those pass, and tries again. The moment is longer than `deadlock_timeout`, a second: only
 * after that does an autovacuum give way.
 */
const LOCK_TIMEOUT = '2s';
const TRIES = 20;
const PAUSE_MS = 1_000;
const LOCK_NOT_AVAILABLE = '55P03';

/**
 * Brings the database to the newest migration, and sequences to where its rows are, and returns what was applied. Safe when several processes call it at
 * once: they take turns under a transaction-level lock, which (unlike a session-level one) also holds through a
 * transaction-mode pooler. All migrations of one call commit together or not at all. Where a table is in use they are
 * tried again for a minute, and fail then: nobody else is held up for longer than two seconds.
 */
export async function migrate(db: Kysely<DB>): Promise<MigrationResult[]> {
  await assertSuitable(db);
  const applied = await inMigrator(db, (migrator) => migrator.migrateToLatest());
  await inTransaction(db, async (trx) => {
    await sql`select pg_advisory_xact_lock(${MIGRATION_LOCK})`.execute(trx);
    await raiseSequences(trx);
  });
  return applied;
}

/** Takes every migration back, newest first. Drops all data. */
export function migrateDown(db: Kysely<DB>): Promise<MigrationResult[]> {
  return inMigrator(db, async (migrator) => {
    const results: MigrationResult[] = [];
    for (;;) {
      const step = await migrator.migrateDown();
      results.push(...(step.results ?? []));
      if (step.error !== undefined || (step.results ?? []).length === 0) return { ...step, results };
    }
  });
}

/**
 * The migrations, each with two things around it: the migrator sets a lock timeout of its own, an hour, so ours is set
 * when a step begins; and it ends a failed turn with a statement that fails too, so the first error is kept.
 */
function impatient(onError: (error: unknown) => void): MigrationProvider {
  const around = (step: Migration['up'] | undefined) => async (db: Kysely<unknown>) => {
    try {
      await sql`select set_config('lock_timeout', ${LOCK_TIMEOUT}, true)`.execute(db);
      await step?.(db);
    } catch (error) {
      onError(error);
      throw error;
    }
  };
  return {
    async getMigrations() {
      const migrations = Object.entries(await migrationProvider.getMigrations());
      return Object.fromEntries(
        migrations.map(([name, migration]) => [
          name,
          {
            up: around((db) => migration.up(db)),
            down: around((db) => migration.down?.(db) ?? Promise.resolve()),
          },
        ]),
      );
    },
  };
}

type Outcome = Awaited<ReturnType<Migrator['migrateToLatest']>>;

async function inMigrator(
  db: Kysely<DB>,
  run: (migrator: Migrator) => Promise<Outcome>,
): Promise<MigrationResult[]> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await inTurn(db, run);
    } catch (error) {
      if (sqlState(error) !== LOCK_NOT_AVAILABLE || tries === TRIES)
        throw orForbidden(error, 'owns it, or may create it: grant create on database … to it');
      await sleep(PAUSE_MS);
    }
  }
}

async function inTurn(
  db: Kysely<DB>,
  run: (migrator: Migrator) => Promise<Outcome>,
): Promise<MigrationResult[]> {
  return await inTransaction(db, async (trx) => {
    await sql`select pg_advisory_xact_lock(${MIGRATION_LOCK})`.execute(trx);
    // Not "if not exists": that asks for the right to make schemas also where there is nothing to make.
    const { rows } = await sql`select from pg_namespace where nspname = ${SCHEMA}`.execute(trx);
    if (rows.length === 0) await sql`create schema ${sql.id(SCHEMA)}`.execute(trx);
    await sql`select set_config('search_path', ${SCHEMA}, true)`.execute(trx);
    let first: unknown;
    const migrator = new Migrator({
      db: trx.withoutPlugins() as Transaction<DB>,
      provider: impatient((error) => (first ??= error)),
      migrationTableSchema: SCHEMA,
    });
    await sql`savepoint before_migrations`.execute(trx);
    const { error, results } = await run(migrator).catch((thrown: unknown) => ({
      error: thrown,
      results: [],
    }));
    if (error === undefined) return results ?? [];
    await releaseLock(trx).catch(() => undefined);
    throw (first ?? error) as Error;
  });
}

/**
 * The migrator also takes a lock of the session, which it cannot give back in a transaction that has failed: whoever
 * gets this connection next would hold it without knowing, and every later start would wait for it.
 */
async function releaseLock(trx: Transaction<DB>): Promise<void> {
  await sql`rollback to savepoint before_migrations`.execute(trx);
  await sql`select pg_advisory_unlock_all()`.execute(trx);
}
