import { useTestDatabase } from '@sluice/testkit';
import { sql, type KyselyPlugin } from 'kysely';
import { afterEach, describe, expect, test } from 'vitest';
import { assertSuitable } from './assert-suitable.ts';
import { assertUsable } from './assert-usable.ts';
import { createDatabase } from './create-database.ts';
import { migrate } from './migrate.ts';

const database = useTestDatabase();

/** The same server, another database or another session. */
function open({ name, settings = {} }: { name?: string; settings?: Record<string, string> }) {
  const url = new URL(database.url);
  if (name !== undefined) url.pathname = `/${name}`;
  const options = Object.entries(settings).map(([setting, value]) => `-c ${setting}=${value}`);
  if (options.length > 0) url.searchParams.set('options', options.join(' '));
  return createDatabase({ connectionString: url.href, applicationName: 'test', connectionsMax: 1 });
}

test('a migrated database of a server that accepts writes is usable', async () => {
  await assertUsable(database.db);
});

test.each(['SQL_ASCII', 'LATIN1', 'EUC_JP'])(
  'one with the encoding %s is refused, and not migrated',
  async (encoding) => {
    const name = `${new URL(database.url).pathname.slice(1)}_${encoding.toLowerCase()}`;
    const create = `create database ${name} encoding '${encoding}' locale 'C' template template0`;
    await sql.raw(create).execute(database.db);
    try {
      await using db = open({ name });
      const refused = {
        code: 'database_unsuitable',
        message: expect.stringContaining(
          `expected a database with the encoding UTF8, got ${encoding}. Make another: create database`,
        ),
      };
      await expect(assertUsable(db)).rejects.toMatchObject(refused);
      await expect(migrate(db)).rejects.toMatchObject(refused);
      const { rows } = await sql`select from pg_namespace where nspname = 'sluice'`.execute(db);
      expect(rows).toEqual([]);
    } finally {
      await sql.raw(`drop database ${name} with (force)`).execute(database.db);
    }
  },
);

test('a server older than 15 is refused', async () => {
  const older: KyselyPlugin = {
    transformQuery: ({ node }) => node,
    transformResult: ({ result }) =>
      Promise.resolve({
        ...result,
        rows: result.rows.map((row) => ({ ...row, version: '14.22 (Debian)', number: '140022' })),
      }),
  };
  await expect(assertSuitable(database.db.withPlugin(older))).rejects.toMatchObject({
    code: 'database_unsuitable',
    message: 'DATABASE_URL: expected PostgreSQL 15 or newer, got 14.22 (Debian). Upgrade the server.',
  });
});

test('sessions whose dates pg would misread are refused', async () => {
  await using db = open({ settings: { datestyle: 'German' } });
  await expect(assertUsable(db)).rejects.toMatchObject({
    code: 'database_unsuitable',
    message: expect.stringContaining('expected sessions with the DateStyle ISO, got German, DMY. Set it'),
  });
  await using other = open({ settings: { datestyle: 'ISO,DMY' } });
  await assertUsable(other);
});

describe('a role without rights', () => {
  const roles: string[] = [];
  afterEach(async () => {
    for (const role of roles.splice(0)) {
      await sql`drop owned by ${sql.id(role)}`.execute(database.db);
      await sql`drop role ${sql.id(role)}`.execute(database.db);
    }
  });

  async function guest(): Promise<string> {
    const role = `${new URL(database.url).pathname.slice(1)}_guest`;
    await sql`create role ${sql.id(role)}`.execute(database.db);
    roles.push(role);
    return role;
  }

  test('on the schema is told which role to use', async () => {
    const role = await guest();
    await using db = open({ settings: { role } });
    const refused = () => assertUsable(db);
    const what = (got: string) =>
      `Schema sluice: expected a role of DATABASE_URL that may use it: the one that ran sluice migrate, or a member of that one, got ${got}.`;
    await expect(refused()).rejects.toMatchObject({
      code: 'database_forbidden',
      what: what('permission denied for schema sluice'),
    });
    await sql`grant usage on schema sluice to ${sql.id(role)}`.execute(database.db);
    await expect(refused()).rejects.toMatchObject({
      code: 'database_forbidden',
      what: what('permission denied for table kysely_migration'),
    });
  });

  test('to create the schema is told what to grant, and needs no right where it owns the schema', async () => {
    const role = await guest();
    const name = `${role}_empty`;
    await sql.raw(`create database ${name}`).execute(database.db);
    try {
      await using db = open({ name, settings: { role } });
      await expect(migrate(db)).rejects.toMatchObject({
        code: 'database_forbidden',
        message: expect.stringMatching(
          /grant create on database … to it, got permission denied for database/,
        ),
      });
      await using admin = open({ name });
      await sql`create schema sluice authorization ${sql.id(role)}`.execute(admin);
      await migrate(db);
      await assertUsable(db);
    } finally {
      await sql.raw(`drop database ${name} with (force)`).execute(database.db);
    }
  });
});
