import { createHash, randomBytes } from 'node:crypto';
import { createDatabase, migrate, type DB } from '@sluice/db';
import { LATEST_MIGRATION } from '@sluice/migrations';
import type { Kysely } from 'kysely';
import pg from 'pg';
import { afterAll, beforeAll } from 'vitest';

export interface TestDatabase {
  /** Ready after `beforeAll`. */
  readonly db: Kysely<DB>;
  /** For processes and connections of the test's own. */
  readonly url: string;
}

/** A migrated database of its own for the calling test file, cloned from a template and dropped afterwards. */
export function useTestDatabase(): TestDatabase {
  let db: Kysely<DB> | undefined;
  let url: string | undefined;
  const name = `test_${randomBytes(6).toString('hex')}`;
  beforeAll(async () => {
    const server = process.env['TEST_DATABASE_URL']!;
    await cloneTemplate(server, name);
    url = withDatabase(server, name);
    db = createDatabase({ connectionString: url, applicationName: 'test' });
  });
  afterAll(async () => {
    await db?.destroy();
    await onServer(process.env['TEST_DATABASE_URL']!, (client) => client.query(`drop database if exists ${name} with (force)`));
  });
  return {
    get db() {
      return db!;
    },
    get url() {
      return url!;
    },
  };
}

async function cloneTemplate(server: string, name: string): Promise<void> {
  const template = `template_${createHash('sha256').update(LATEST_MIGRATION).digest('hex').slice(0, 12)}`;
  await onServer(server, async (client) => {
    await client.query('select pg_advisory_lock(7420)');
    const found = await client.query('select 1 from pg_database where datname = $1', [template]);
    if (found.rowCount === 0) {
      await client.query(`create database ${template}_new`);
      const db = createDatabase({ connectionString: withDatabase(server, `${template}_new`), applicationName: 'template' });
      await migrate(db);
      await db.destroy();
      await client.query(`alter database ${template}_new rename to ${template}`);
    }
    await client.query(`create database ${name} template ${template}`);
  });
}

function withDatabase(server: string, name: string): string {
  const url = new URL(server);
  url.pathname = `/${name}`;
  return url.href;
}

async function onServer<T>(server: string, run: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: server });
  await client.connect();
  try {
    return await run(client);
  } finally {
    await client.end();
  }
}
