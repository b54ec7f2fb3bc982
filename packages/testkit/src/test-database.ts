import { createDatabase, type DB } from '@sluice/db';
import type { Kysely } from 'kysely';
import { afterAll, beforeAll, vi } from 'vitest';
import { onServer, withDatabase } from './on-server.ts';
import { cloneTemplate, testDatabaseName } from './template-database.ts';
import { testServerUrl } from './test-server.ts';

export interface TestDatabase {
  /** Ready after `beforeAll`. */
  readonly db: Kysely<DB>;
  /** For processes and connections of the test's own, which must be closed before the file ends. */
  readonly url: string;
}

/**
 * A migrated database for the calling test file. Dropped when its tests passed, which includes that they left no
 * connection open; kept when one failed, with a line that says how to open it.
 */
export function useTestDatabase(): TestDatabase {
  return useDatabase(cloneTemplate);
}

/** Like {@link useTestDatabase}, but nothing is in it: for tests of the migrations. */
export function useEmptyDatabase(): TestDatabase {
  return useDatabase((serverUrl, name) =>
    onServer(serverUrl, (client) => client.query(`create database ${name}`)),
  );
}

function useDatabase(create: (serverUrl: string, name: string) => Promise<unknown>): TestDatabase {
  const name = testDatabaseName();
  let db: Kysely<DB> | undefined;
  let url: string | undefined;
  beforeAll(async () => {
    const serverUrl = testServerUrl();
    await create(serverUrl, name);
    url = withDatabase(serverUrl, name);
    db = createDatabase({ connectionString: url, applicationName: 'test' });
  });
  // eslint-disable-next-line no-empty-pattern -- vitest insists on a pattern here.
  afterAll(async ({}, suite) => {
    await db?.destroy();
    if (url === undefined) return;
    if (hasFailure(suite)) await keepDatabase(testServerUrl(), name);
    else await dropDatabase(testServerUrl(), name);
  });
  return {
    get db() {
      return ready(db);
    },
    get url() {
      return ready(url);
    },
  };
}

function ready<T>(value: T | undefined): T {
  if (value === undefined)
    throw new Error('The test database exists from beforeAll on: use it inside a test or hook.');
  return value;
}

interface TaskLike {
  result?: { state: string } | undefined;
  tasks?: readonly TaskLike[];
}

function hasFailure(task: TaskLike): boolean {
  return task.result?.state === 'fail' || (task.tasks ?? []).some(hasFailure);
}

async function keepDatabase(serverUrl: string, name: string): Promise<void> {
  const kept = name.replace('sluice_test_', 'sluice_kept_');
  await onServer(serverUrl, async (client) => {
    await client.query('select pg_terminate_backend(pid) from pg_stat_activity where datname = $1', [name]);
    await client.query(`alter database ${name} rename to ${kept}`);
  });
  process.stderr.write(
    `A test failed; its database is kept for a day: psql '${withDatabase(serverUrl, kept)}'\n`,
  );
}

async function dropDatabase(serverUrl: string, name: string): Promise<void> {
  await onServer(serverUrl, async (client) => {
    try {
      // A closed connection's backend takes a moment to leave.
      await vi.waitFor(() => assertNoConnections(client, name), { timeout: 8_000, interval: 20 });
    } finally {
      await client.query(`drop database if exists ${name} with (force)`);
    }
  });
}

async function assertNoConnections(
  client: { query: (text: string, values: unknown[]) => Promise<{ rows: { who: string }[] }> },
  name: string,
): Promise<void> {
  const { rows } = await client.query(
    `select format('%s (%s): %s', application_name, coalesce(state, '?'), left(query, 80)) as who
       from pg_stat_activity where datname = $1 and backend_type = 'client backend'`,
    [name],
  );
  if (rows.length === 0) return;
  throw new Error(
    `Connections left open after the tests of this file:\n${rows.map((row) => row.who).join('\n')}`,
  );
}
