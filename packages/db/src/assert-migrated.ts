import { migrationProvider } from '@sluice/migrations';
import { sql, type Kysely } from 'kysely';
import { orForbidden } from './forbidden.ts';
import { sqlState } from './postgres-errors.ts';
import { SCHEMA } from './schema.ts';
import { SluiceError } from './sluice-error.ts';
import type { DB } from './tables.generated.ts';

const UNDEFINED_TABLE = '42P01';

/**
 * Throws `schema_out_of_date` unless the database has exactly the migrations that this version knows, and
 * `database_forbidden` if the role may not even look.
 */
export async function assertMigrated(db: Kysely<DB>): Promise<void> {
  const known = Object.keys(await migrationProvider.getMigrations());
  const applied = await appliedMigrations(db);
  const missing = known.filter((name) => !applied.has(name));
  const unknown = [...applied].filter((name) => !known.includes(name));
  if (missing.length > 0) {
    throw new SluiceError(
      'schema_out_of_date',
      `Schema ${SCHEMA}: expected migration ${missing.join(', ')}, got ${applied.size === 0 ? 'none' : [...applied].at(-1)} as the last one.`,
    );
  }
  if (unknown.length > 0) {
    throw new SluiceError(
      'schema_out_of_date',
      `Schema ${SCHEMA}: expected ${known.at(-1)} as the last migration, got ${unknown.join(', ')}, which a newer version applied.`,
      { next: 'Start that version instead.' },
    );
  }
}

async function appliedMigrations(db: Kysely<DB>): Promise<Set<string>> {
  try {
    const { rows } = await sql<{ name: string }>`
      select name from ${sql.id(SCHEMA, 'kysely_migration')} order by name`.execute(db);
    return new Set(rows.map((row) => row.name));
  } catch (error) {
    if (sqlState(error) === UNDEFINED_TABLE) return new Set();
    throw orForbidden(error, 'may use it: the one that ran sluice migrate, or a member of that one');
  }
}
