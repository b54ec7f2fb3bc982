import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import {
  commitFiles,
  makeRepo,
  spawnApp,
  useTempFolder,
  useTestDatabase,
  type SpawnedApp,
} from '@sluice/testkit';
import { expect, test } from 'vitest';
import { closeCommitGate } from './commit-gate.ts';

const database = useTestDatabase();
const folder = useTempFolder();

function run(env: Record<string, string>): SpawnedApp {
  return spawnApp({
    file: join(import.meta.dirname, '../src/main.ts'),
    env: {
      DATABASE_URL: database.url,
      SLUICE_DATA_DIR: join(folder.path, 'data'),
      SLUICE_LISTEN: '127.0.0.1:0',
      SLUICE_LOG_FORMAT: 'json',
      SLUICE_DATABASE_WAIT_MS: '500',
      ...env,
    },
  });
}

async function urlOf(app: SpawnedApp): Promise<string> {
  return (await app.waitForOutput(/"event":"pusher_started","url":"([^"]+)"/))[1]!;
}

test('a start that is refused for being open to everybody leaves nothing behind', async () => {
  await using app = run({ SLUICE_LISTEN: '0.0.0.0:0' });
  expect((await app.exited()).code).toBe(1);
  expect(existsSync(join(folder.path, 'data'))).toBe(false);
  expect(await database.db.selectFrom('server_key').select('fingerprint').execute()).toEqual([]);
});

test.each([
  [
    'a place that others reach, without a token',
    { SLUICE_LISTEN: '0.0.0.0:0' },
    /SLUICE_LISTEN: expected a loopback address/,
  ],
  [
    'a wrong setting',
    { SLUICE_SLOW: '1', SLUICE_IDLE_MS: 'soon' },
    /SLUICE_IDLE_MS: expected whole milliseconds/,
  ],
  [
    'no database',
    { DATABASE_URL: 'postgres://127.0.0.1:1/none' },
    /DATABASE_URL: expected a PostgreSQL server/,
  ],
  [
    'a read-only database',
    () => ({ DATABASE_URL: `${database.url}?options=-c%20default_transaction_read_only%3Don` }),
    /DATABASE_URL: expected a server that accepts writes, got one whose sessions are read-only/,
  ],
  [
    'a data folder that cannot be',
    { SLUICE_DATA_DIR: '/dev/null/sluice' },
    /SLUICE_DATA_DIR: expected a folder that/,
  ],
  ['no git', { PATH: '/nonexistent' }, /expected git 2\.34 or newer on the PATH, got none/],
])('%s: it does not start, and says why in a line or two', async (_, env, reason) => {
  await using app = run(typeof env === 'function' ? env() : env);
  expect(await app.exited()).toEqual({ code: 1, signal: null });
  expect(app.output()).toMatch(reason);
  expect(app.output()).not.toMatch(/^ {4}at /m);
});

test('a port that is taken is named', async () => {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  const { port } = other.address() as AddressInfo;
  await using app = run({ SLUICE_LISTEN: `127.0.0.1:${port}` });
  expect((await app.exited()).code).toBe(1);
  expect(app.output()).toContain(`expected a free port, got 127.0.0.1:${port}`);
  other.close();
});

test('at SIGTERM a push that is being committed is finished, and then the process ends', async () => {
  await using gate = await closeCommitGate(database.db);
  await using app = run({ SLUICE_GRACE_MS: '20000' });
  const url = await urlOf(app);
  const work = await makeRepo(join(folder.path, 'work'));
  await commitFiles(work, { 'a.txt': 'one' });
  const pushing = work.attempt(['push', `${url}/last.git`, 'main']);
  await gate.reached();
  app.signal('SIGTERM');
  await app.waitForOutput(/shutdown_started/);
  await gate.open();
  expect((await pushing).code).toBe(0);
  expect(await app.exited()).toEqual({ code: 0, signal: null });
});

test.each([{ SLUICE_TOKEN: 'secret' }, { SLUICE_ACCOUNTS: 'required' }])(
  'with %j it listens anywhere',
  async (env) => {
    await using app = run({ SLUICE_LISTEN: '0.0.0.0:0', ...env });
    const { port } = new URL(await urlOf(app));
    expect((await fetch(`http://127.0.0.1:${port}/_health`)).status).toBe(200);
    expect((await fetch(`http://127.0.0.1:${port}/_metrics`)).status).toBe(401);
    expect(app.output()).not.toContain('secret');
  },
);
