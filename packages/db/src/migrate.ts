import { migrationProvider } from '@sluice/migrations';
import { sql, type Kysely, type Transaction } from 'kysely';
import { Migrator, type MigrationResult } from 'kysely/migration';
import { SCHEMA } from './schema.ts';
import type { DB } from './tables.generated.ts';

/** Any constant: one migration at a time per database, whoever starts it. */
const MIGRATION_LOCK = 5_108_302_197n;

/**
 * Brings the database to the newest migration and returns what was applied. Safe when several processes call it at
 * once: they take turns under a transaction-level lock, which (unlike a session-level one) also holds through a
 * transaction-mode pooler. All migrations of one call commit together or not at all.
 */
export function migrate(db: Kysely<DB>): Promise<MigrationResult[]> {
  return inMigrator(db, (migrator) => migrator.migrateToLatest());
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

type Outcome = Awaited<ReturnType<Migrator['migrateToLatest']>>;

async function inMigrator(
  db: Kysely<DB>,
  run: (migrator: Migrator) => Promise<Outcome>,
): Promise<MigrationResult[]> {
  return await db.transaction().execute(async (trx) => {
    await sql`select pg_advisory_xact_lock(${MIGRATION_LOCK})`.execute(trx);
    await sql`create schema if not exists ${sql.id(SCHEMA)}`.execute(trx);
    await sql`select set_config('search_path', ${SCHEMA}, true)`.execute(trx);
    const { error, results } = await run(
      new Migrator({
        db: trx.withoutPlugins() as Transaction<DB>,
        provider: migrationProvider,
        migrationTableSchema: SCHEMA,
      }),
    );
    if (error !== undefined) throw error as Error;
    return results ?? [];
  });
}
