import { createDatabase, migrate, type DB } from '@sluice/db';
import { startThrowawayPostgres } from '@sluice/local-postgres';
import type { Kysely } from 'kysely';

/** Runs on a newly migrated database of a server of its own, so that the result depends on the migrations alone. */
export async function withMigratedDatabase<T>(run: (url: string, db: Kysely<DB>) => Promise<T>): Promise<T> {
  await using server = await startThrowawayPostgres({ version: 18 });
  const db = createDatabase({ connectionString: server.url, applicationName: 'scripts', connectionsMax: 1 });
  try {
    await migrate(db);
    return await run(server.url, db);
  } finally {
    await db.destroy();
  }
}
