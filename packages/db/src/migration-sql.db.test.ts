import { migrationProvider } from '@sluice/migrations';
import { useEmptyDatabase } from '@sluice/testkit';
import { sql, type Kysely } from 'kysely';
import { expect, test } from 'vitest';
import { renderSchema } from '../../../scripts/render-schema.ts';
import { assertUsable } from './assert-usable.ts';
import { migrate } from './migrate.ts';
import { migrationSql } from './migration-sql.ts';
import type { DB } from './tables.generated.ts';

const migrated = useEmptyDatabase();
const bySql = useEmptyDatabase();
const names = Object.keys(await migrationProvider.getMigrations());

/** Everything in the schema, the migrator's own tables included. */
async function describe(db: Kysely<DB>): Promise<unknown> {
  const columns = await sql`
    select table_name, column_name, data_type, character_maximum_length, is_nullable, column_default
      from information_schema.columns where table_schema = 'sluice' and table_name like 'kysely\\_%' order by 1, 2`.execute(
    db,
  );
  const keys = await sql`
    select conrelid::regclass::text as table, pg_get_constraintdef(oid) as definition from pg_constraint
     where conrelid::regclass::text like 'sluice.kysely\\_%' and contype <> 'n' order by 1, 2`.execute(db);
  const locks = await sql`select * from sluice.kysely_migration_lock`.execute(db);
  const applied = await sql<{ name: string; timestamp: string }>`
    select name, regexp_replace(timestamp, '[0-9]', '9', 'g') as timestamp from sluice.kysely_migration order by name`.execute(
    db,
  );
  return {
    schema: await renderSchema(db),
    records: [columns.rows, keys.rows, locks.rows, applied.rows],
  };
}

test('the SQL makes what the migrator makes, in two parts as well, and leaves it nothing to do', async () => {
  const [first, third] = [names[0]!, names[2]!];
  await migrate(migrated.db);
  const expected = await describe(migrated.db);
  const whole = await migrationSql();
  const half = whole.slice(0, whole.indexOf(`-- ${names[3]}`));
  for (const parts of [[whole], [half, await migrationSql({ after: third })]]) {
    await sql`drop schema if exists sluice cascade`.execute(bySql.db);
    await bySql.db.connection().execute(async (db) => {
      for (const part of parts) await sql.raw(part).execute(db);
      if (parts.length === 1) {
        const { rows } = await sql<{ path: string }>`select current_setting('search_path') as path`.execute(
          db,
        );
        expect(rows).toEqual([{ path: '"$user", public' }]);
      }
    });
    expect(await describe(bySql.db)).toEqual(expected);
    await assertUsable(bySql.db);
    expect(await migrate(bySql.db)).toEqual([]);
  }
  expect(whole.endsWith((await migrationSql({ after: first })).replace(/^.*\n\n/, ''))).toBe(true);
});

test('SQL after a migration that is none is refused, with the ones there are', async () => {
  await expect(migrationSql({ after: '0007' })).rejects.toMatchObject({
    code: 'invalid_argument',
    message: `after: expected one of ${names.join(', ')}, got "0007". Pass the last migration that the database has.`,
  });
});
