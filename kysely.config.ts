import { createPool, SCHEMA } from '@sluice/db';
import { migrationProvider } from '@sluice/migrations';
import { defineConfig } from 'kysely-ctl';

/** For `npx kysely migrate:…` on the database that DATABASE_URL names; `npm run db:migrate` is the everyday way. */
export default defineConfig({
  dialect: 'pg',
  dialectConfig: {
    pool: createPool({ connectionString: databaseUrl(), applicationName: 'kysely-ctl', connectionsMax: 1 }),
  },
  migrations: {
    provider: migrationProvider,
    migrationTableSchema: SCHEMA,
  },
});

function databaseUrl(): string {
  const value = process.env['DATABASE_URL'];
  if (value === undefined || value === '') {
    throw new Error(
      'DATABASE_URL: expected postgres://user:password@host:port/database, got nothing. Set it.',
    );
  }
  const url = new URL(value);
  // The migrations name no schema.
  url.searchParams.set('options', `-c search_path=${SCHEMA}`);
  return url.href;
}
