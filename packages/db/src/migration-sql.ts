import { migrationProvider } from '@sluice/migrations';
import {
  DummyDriver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  sql,
} from 'kysely';
import { SCHEMA } from './schema.ts';
import { SluiceError } from './sluice-error.ts';

/**
 * The migrations as SQL, for whoever runs migrations by another tool: what `migrate` would do to an empty database, or
 * with `after`, the last migration of the SQL before, to one that has all up to that. It keeps the same record of what was
 * applied, so that `migrate` and `assertUsable` know. Run it in one transaction, by the role that the programs use.
 *
 * @throws SluiceError `invalid_argument` if `after` is no migration.
 */
export async function migrationSql({ after }: { after?: string | undefined } = {}): Promise<string> {
  const migrations = Object.entries(await migrationProvider.getMigrations());
  const names = migrations.map(([name]) => name);
  if (after !== undefined && !names.includes(after)) {
    throw new SluiceError(
      'invalid_argument',
      `after: expected one of ${names.join(', ')}, got ${JSON.stringify(after)}.`,
      { next: 'Pass the last migration that the database has.' },
    );
  }
  const { db, statements } = recorder();
  const schema = sql.id(SCHEMA).compile(db).sql;
  const parts = [
    ...(after === undefined
      ? [`-- Leave this line out where the schema is there.\ncreate schema if not exists ${schema};`]
      : []),
    `set search_path to ${schema};`,
    ...(after === undefined ? [RECORDS] : []),
  ];
  for (const [name, migration] of migrations.slice(names.indexOf(after ?? '') + 1)) {
    await migration.up(db);
    parts.push(`-- ${name}`, ...statements.splice(0).map((statement) => `${statement};`));
    parts.push(`insert into kysely_migration (name, timestamp) values ('${name}', ${NOW});`);
  }
  return `${[...parts, 'reset search_path;'].join('\n\n')}\n`;
}

/** The tables in which Kysely's migrator remembers what it has applied. */
const RECORDS = `create table kysely_migration (
  name varchar(255) not null primary key,
  timestamp varchar(255) not null
);
create table kysely_migration_lock (
  id varchar(255) not null primary key,
  is_locked integer default 0 not null
);
insert into kysely_migration_lock (id) values ('migration_lock');`;

/** As the migrator writes it. */
const NOW = `to_char(now() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

/** A database that is none: it keeps the text of what it is sent. */
function recorder(): { db: Kysely<unknown>; statements: string[] } {
  const statements: string[] = [];
  const db = new Kysely<unknown>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (own) => new PostgresIntrospector(own),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
    log: ({ query }) => {
      statements.push(query.sql);
    },
  });
  return { db, statements };
}
