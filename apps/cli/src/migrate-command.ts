import { migrate } from '@sluice/db';
import type { Terminal } from './terminal.ts';
import { withAnyDatabase } from './with-database.ts';

/** `sluice migrate`: brings the database to this version's schema. */
export async function migrateDatabase(terminal: Terminal): Promise<void> {
  const applied = await withAnyDatabase(terminal, (db) => migrate(db));
  for (const { migrationName } of applied) terminal.stdout.write(`applied ${migrationName}\n`);
  terminal.stdout.write(
    applied.length === 0 ? 'the schema is up to date\n' : 'the schema is up to date now\n',
  );
}
