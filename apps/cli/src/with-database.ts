import { assertMigrated, createDatabase, type DB } from '@sluice/db';
import type { Kysely } from 'kysely';
import { readDatabaseUrl } from './settings.ts';
import type { Terminal } from './terminal.ts';

/** Runs with a connection to the database, checked to have this version's schema, and closes it. */
export function withDatabase<T>(terminal: Terminal, run: (db: Kysely<DB>) => Promise<T>): Promise<T> {
  return withAnyDatabase(terminal, async (db) => {
    await assertMigrated(db);
    return await run(db);
  });
}

/** The same for a database whose schema may be anything. */
export async function withAnyDatabase<T>(
  terminal: Terminal,
  run: (db: Kysely<DB>) => Promise<T>,
): Promise<T> {
  const connectionString = await readDatabaseUrl(terminal.env);
  const db = createDatabase({
    connectionString,
    applicationName: 'sluice cli',
    connectionsMax: 1,
    // Right for any pooler; what the other kind gains, one command would not notice.
    pooler: 'transaction',
  });
  try {
    return await run(db);
  } finally {
    await db.destroy();
  }
}
