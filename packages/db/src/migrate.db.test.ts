import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { migrationProvider } from '@sluice/migrations';
import { useEmptyDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { assertMigrated } from './assert-migrated.ts';
import { createDatabase } from './create-database.ts';
import { migrate, migrateDown } from './migrate.ts';

const database = useEmptyDatabase();
const names = Object.keys(await migrationProvider.getMigrations());
const entry = fileURLToPath(new URL('./index.ts', import.meta.url));

/** A process of its own: SLUICE_SCHEMA is fixed for the life of one. */
async function inProcess(body: string, env: NodeJS.ProcessEnv = {}): Promise<string> {
  const script = `
    const { createDatabase, migrate, migrateDown, assertMigrated, table } = await import(${JSON.stringify(entry)});
    const db = createDatabase({ connectionString: process.env.URL, applicationName: 'child' });
    try { ${body} } finally { await db.destroy(); }`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', script], {
    env: { PATH: process.env['PATH'], URL: database.url, ...env },
    cwd: fileURLToPath(new URL('..', import.meta.url)),
    timeout: 60_000,
  });
  return stdout.trim();
}

async function tablesIn(schema: string): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`
    select tablename as name from pg_tables where schemaname = ${schema} order by 1`.execute(database.db);
  return rows.map((row) => row.name).filter((name) => !name.startsWith('kysely_'));
}

test('five processes that migrate at once apply each migration exactly once', async () => {
  const body = `console.log((await migrate(db)).length)`;
  // Those who waited for the first would not see what it applied, at the level that the operator chose here.
  const env = { PGOPTIONS: '-c default_transaction_isolation=serializable' };
  const applied = await Promise.all(Array.from({ length: 5 }, () => inProcess(body, env)));
  expect(applied.map(Number).toSorted((a, b) => a - b)).toEqual([0, 0, 0, 0, names.length]);
  await assertMigrated(database.db);
});

test('up, down, up: down leaves nothing behind, and each direction reports what it did', async () => {
  await migrate(database.db);
  const tables = await tablesIn('sluice');
  expect(tables).toContain('effect_queue');

  const down = await migrateDown(database.db);
  expect(down.map((step) => step.migrationName)).toEqual(names.toReversed());
  const { rows } = await sql`select relname from pg_class join pg_namespace n on n.oid = relnamespace
    where nspname = 'sluice' and relname not like 'kysely_%'`.execute(database.db);
  expect(rows).toEqual([]);

  const up = await migrate(database.db);
  expect(up.map((step) => step.migrationName)).toEqual(names);
  expect(await tablesIn('sluice')).toEqual(tables);
  expect(await migrate(database.db)).toEqual([]);
});

test('SLUICE_SCHEMA moves everything into another schema', async () => {
  await inProcess(
    `await migrate(db); await assertMigrated(db);
    await db.insertInto('repo').values({ repo_id: 'elsewhere' }).execute()`,
    { SLUICE_SCHEMA: 'forge_queue' },
  );
  await migrate(database.db);
  expect(await tablesIn('forge_queue')).toEqual(await tablesIn('sluice'));
  const { rows } = await sql`select repo_id from forge_queue.repo`.execute(database.db);
  expect(rows).toEqual([{ repo_id: 'elsewhere' }]);
  await inProcess(`await migrateDown(db)`, { SLUICE_SCHEMA: 'forge_queue' });
  expect(await tablesIn('sluice')).toContain('repo');
});

test('a schema name that would need quoting is refused by name', async () => {
  const refused = inProcess('', { SLUICE_SCHEMA: 'Robert"; drop' });
  await expect(refused).rejects.toThrow('SLUICE_SCHEMA: expected a lower-case identifier such as sluice');
});

test('the search path of the caller neither matters nor changes', async () => {
  const db = createDatabase({
    connectionString: `${database.url}?options=-c%20search_path%3Dpg_catalog`,
    applicationName: 'bare path',
    connectionsMax: 1,
  });
  await migrateDown(db);
  await migrate(db);
  const { rows } = await sql`show search_path`.execute(db);
  await db.destroy();
  expect(rows).toEqual([{ search_path: 'pg_catalog' }]);
});

test('assertMigrated names what is missing, and what a newer version left', async () => {
  await migrateDown(database.db);
  await expect(assertMigrated(database.db)).rejects.toMatchObject({ code: 'schema_out_of_date' });
  await expect(assertMigrated(database.db)).rejects.toThrow(`${names.join(', ')}, got none`);
  await migrate(database.db);
  await sql`insert into sluice.kysely_migration values ('9999-future', '2999-01-01')`.execute(database.db);
  await expect(assertMigrated(database.db)).rejects.toThrow('got 9999-future, which a newer version applied');
  await sql`delete from sluice.kysely_migration where name = '9999-future'`.execute(database.db);
});
