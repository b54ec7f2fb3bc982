import { createHash, randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { createDatabase, migrate } from '@sluice/db';
import { onServer, withDatabase } from './on-server.ts';

/** Any constant: one process at a time makes or sweeps templates. */
const TEMPLATE_LOCK = 7_420;
const TEST_DATABASE_AGE_MAX_S = 2 * 3_600;
const KEPT_DATABASE_AGE_MAX_S = 24 * 3_600;

/** `sluice_<test or kept>_<creation, seconds since 1970>_<random>`: the name tells the sweep what to drop. */
export function testDatabaseName(): string {
  return `sluice_test_${Math.floor(Date.now() / 1_000)}_${randomBytes(5).toString('hex')}`;
}

/** Creates a migrated database by cloning the template, which is made first if this is the first time. */
export async function cloneTemplate(serverUrl: string, name: string): Promise<void> {
  const template = `sluice_template_${migrationsHash()}`;
  await onServer(serverUrl, async (client) => {
    await client.query('select pg_advisory_lock($1)', [TEMPLATE_LOCK]);
    const found = await client.query('select from pg_database where datname = $1', [template]);
    if (found.rowCount === 0) {
      // Renamed when complete: a template whose migration was cut off is never cloned.
      await client.query(`drop database if exists ${template}_new with (force)`);
      await client.query(`create database ${template}_new`);
      await migrateDatabase(withDatabase(serverUrl, `${template}_new`));
      await client.query(`alter database ${template}_new rename to ${template}`);
    }
    await client.query(`create database ${name} template ${template}`);
  });
}

/** Drops what killed test runs left behind: old test databases, and templates of other migrations. */
export async function sweepDatabases(serverUrl: string): Promise<void> {
  await onServer(serverUrl, async (client) => {
    await client.query('select pg_advisory_lock($1)', [TEMPLATE_LOCK]);
    const { rows } = await client.query<{ datname: string }>(
      `select datname from pg_database, lateral (select split_part(datname, '_', 3) as third) name
        where (datname ~ '^sluice_template_' and datname <> $1)
           or (datname ~ '^sluice_test_[0-9]+_' and third::bigint < extract(epoch from now()) - $2::int)
           or (datname ~ '^sluice_kept_[0-9]+_' and third::bigint < extract(epoch from now()) - $3::int)`,
      [`sluice_template_${migrationsHash()}`, TEST_DATABASE_AGE_MAX_S, KEPT_DATABASE_AGE_MAX_S],
    );
    for (const { datname } of rows) await client.query(`drop database if exists "${datname}" with (force)`);
  });
}

async function migrateDatabase(url: string): Promise<void> {
  const db = createDatabase({ connectionString: url, applicationName: 'sluice-testkit', connectionsMax: 1 });
  try {
    await migrate(db);
  } finally {
    await db.destroy();
  }
}

/** Over every migration source and the schema's name: an edited migration gets a template of its own. */
function migrationsHash(): string {
  const folder = dirname(createRequire(import.meta.url).resolve('@sluice/migrations'));
  const hash = createHash('sha256').update(process.env['SLUICE_SCHEMA'] ?? '');
  for (const file of readdirSync(folder)
    .filter((name) => name.endsWith('.ts'))
    .sort()) {
    hash.update(`${file}\0`).update(readFileSync(join(folder, file)));
  }
  return hash.digest('hex').slice(0, 12);
}
