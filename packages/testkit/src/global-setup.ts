import type { TestProject } from 'vitest/node';
import { onServer, withDatabase } from './on-server.ts';
import { startTestServer } from './start-test-server.ts';
import { sweepDatabases } from './template-database.ts';

/** For vitest's `globalSetup`: chooses the PostgreSQL server of this run, says which and why, and stops it in the end. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await startTestServer(process.env);
  process.stderr.write(`Tests use ${server.choice}.\n`);
  await sweepDatabases(server.url);
  project.provide('testServerUrl', server.url);
  return async () => {
    const isOurs = process.env['TEST_DATABASE_URL'] === undefined || process.env['TEST_DATABASE_URL'] === '';
    if (isOurs && process.env['TEST_KEEP'] === '1') await untilInterrupted(server.url);
    await server.stop();
  };
}

/** Kept databases live on a server that goes with this run, so that run stays until Ctrl-C when it was asked to. */
async function untilInterrupted(url: string): Promise<void> {
  const kept = await onServer(url, async (client) => {
    const { rows } = await client.query<{ datname: string }>(
      `select datname from pg_database where datname ~ '^sluice_kept_'`,
    );
    return rows.map((row) => withDatabase(url, row.datname));
  });
  if (kept.length === 0) return;
  process.stderr.write(`Kept until Ctrl-C:\n${kept.map((each) => `  psql '${each}'\n`).join('')}`);
  await new Promise<void>((resolve) => process.once('SIGINT', resolve));
}
