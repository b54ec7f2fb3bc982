import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { onServer } from '../src/on-server.ts';
import { sweepDatabases } from '../src/template-database.ts';
import { testServerUrl } from '../src/test-server.ts';

const ROOT = join(import.meta.dirname, '../../..');

async function runFixture(name: string): Promise<string> {
  const vitest = join(dirname(createRequire(import.meta.url).resolve('vitest/package.json')), 'vitest.mjs');
  return await new Promise((resolve) =>
    execFile(
      process.execPath,
      [vitest, 'run', '--config=packages/testkit/test/fixtures.config.ts', `${name}.fixture`],
      {
        cwd: ROOT,
        env: {
          PATH: process.env['PATH'],
          HOME: process.env['HOME'],
          TEST_DATABASE_URL: testServerUrl(),
          NO_COLOR: '1',
        },
        timeout: 50_000,
      },
      (_error, stdout, stderr) => resolve(stdout + stderr),
    ),
  );
}

async function databaseNames(): Promise<string[]> {
  return await onServer(testServerUrl(), async (client) => {
    const { rows } = await client.query<{ datname: string }>('select datname from pg_database');
    return rows.map((row) => row.datname);
  });
}

test('a passing file leaves no database', async () => {
  const output = await runFixture('passes');
  const name = /url of passes: \S+\/(sluice_test_\w+)/.exec(output)?.[1];
  expect(output).toMatch(/ 1 passed/);
  expect(await databaseNames()).not.toContain(name);
});

test('a failed file keeps its database and says how to open it', async () => {
  const output = await runFixture('fails');
  expect(output).toMatch(/ 1 failed/);
  const url = /its database is kept for a day: psql '(\S+)'/.exec(output)?.[1];
  if (url === undefined) throw new Error(`no line says how to open it:\n${output}`);
  const { rows } = await onServer(url, (client) => client.query('select repo_id from sluice.repo'));
  expect(rows).toEqual([{ repo_id: 'evidence' }]);
  const name = new URL(url).pathname.slice(1);
  await onServer(testServerUrl(), (client) => client.query(`drop database ${name}`));
});

test('a file that leaves a connection open fails and names it', async () => {
  const output = await runFixture('leaks');
  expect(output).toContain('Connections left open after the tests of this file');
  expect(output).toContain('a forgotten client (');
});

test('the sweep drops what killed runs left, and nothing that may be in use', async () => {
  const now = Math.floor(Date.now() / 1_000);
  // Another run may share the server.
  const sweep = `sweep${process.pid}`;
  const names = {
    old: `sluice_test_${now - 3 * 3_600}_${sweep}`,
    recent: `sluice_test_${now - 60}_${sweep}`,
    keptToday: `sluice_kept_${now - 3 * 3_600}_${sweep}`,
    keptLongAgo: `sluice_kept_${now - 30 * 3_600}_${sweep}`,
  };
  await onServer(testServerUrl(), async (client) => {
    for (const name of Object.values(names)) await client.query(`create database ${name}`);
  });
  await sweepDatabases(testServerUrl());
  const left = (await databaseNames()).filter((name) => name.endsWith(`_${sweep}`));
  await onServer(testServerUrl(), async (client) => {
    for (const name of left) await client.query(`drop database ${name}`);
  });
  expect(left.toSorted()).toEqual([names.keptToday, names.recent].toSorted());
});
