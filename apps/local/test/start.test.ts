import { execFile } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import {
  commitFiles,
  defineEffect,
  freePort,
  gitIn,
  makeRepo,
  spawnApp,
  useTempFolder,
  type SpawnedApp,
} from '@sluice/testkit';
import { expect, test } from 'vitest';

const MAIN = join(import.meta.dirname, '../src/main.ts');
const START_MS = 120_000;
const folder = useTempFolder();

function start(port: number): SpawnedApp {
  return spawnApp({
    file: MAIN,
    env: { SLUICE_DATA_DIR: join(folder.path, 'sluice'), SLUICE_LISTEN: `127.0.0.1:${port}` },
  });
}

/** Every process that this start caused carries its folder in its environment or on its command line. */
function processesOf(path: string): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((pid) => ['environ', 'cmdline'].some((file) => readProc(pid, file).includes(path)))
    .map((pid) => `${pid} ${readProc(pid, 'cmdline').replaceAll('\0', ' ')}`);
}

function readProc(pid: string, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return '';
  }
}

/** As the person at the terminal would, with nothing configured. */
async function shell(lines: string, cwd: string): Promise<string> {
  const env = {
    PATH: process.env['PATH'],
    HOME: cwd,
    GIT_CONFIG_NOSYSTEM: '1',
    SLUICE_DATA_DIR: join(folder.path, 'sluice'),
  };
  return (await promisify(execFile)('sh', ['-ec', lines], { cwd, env, timeout: 60_000 })).stdout;
}

const isLinux = process.platform === 'linux';

test('starts, keeps everything over a restart, and leaves no process and no lock', async () => {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}/me/first.git`;
  const git = await makeRepo(join(folder.path, 'repo'));
  const commit = await commitFiles(git, { 'a.txt': 'a' });
  const state = join(folder.path, 'sluice');

  await using first = start(port);
  await first.waitForOutput(/Sluice runs\./, START_MS);
  expect(statSync(join(state, 'local.json')).mode & 0o777).toBe(0o600);
  expect(JSON.parse(readFileSync(join(state, 'local.json'), 'utf8'))).toEqual({
    databaseUrl: expect.stringMatching(/^postgres:\/\/postgres:.+@127\.0\.0\.1:\d+\/postgres$/),
    pusherUrl: `http://127.0.0.1:${port}`,
  });
  const [, tried = '', readResult = ''] =
    /Three lines to try.*\n((?:  .*\n){3})Then read the result:\n(.*)\n/.exec(first.output()) ?? [];
  await shell(tried, git.folder);
  const resultRef = `refs/meta/results/hello/${commit}`;
  await expect
    .poll(() => git(['ls-remote', url, resultRef]), { timeout: 60_000, interval: 200 })
    .not.toBe('');
  expect(await shell(readResult, git.folder)).toBe(`hello from ${commit}\na.txt\n`);

  await using other = start(await freePort());
  expect(await other.exited()).toEqual({ code: 1, signal: null });
  expect(other.output()).toContain('Sluice already runs on this folder');

  first.signal('SIGINT');
  expect(await first.exited(60_000)).toEqual({ code: 0, signal: null });
  expect(['lock', 'local.json'].filter((name) => existsSync(join(state, name)))).toEqual([]);
  if (isLinux) await expect.poll(() => processesOf(state), { timeout: 60_000, interval: 100 }).toEqual([]);

  await using second = start(port);
  await second.waitForOutput(/Sluice runs\./, START_MS);
  expect(await gitIn(folder.path)(['ls-remote', url, 'refs/heads/main'])).toBe(`${commit}\trefs/heads/main`);
  second.signal('SIGTERM');
  expect(await second.exited(60_000)).toEqual({ code: 0, signal: null });
}, 300_000);

test.runIf(isLinux)(
  'kill -9 leaves nothing that runs, and the next start works',
  async () => {
    const port = await freePort();
    await using first = start(port);
    await first.waitForOutput(/Sluice runs\./, START_MS);
    first.signal('SIGKILL');
    await first.exited();
    await expect
      .poll(() => processesOf(join(folder.path, 'sluice')), { timeout: 60_000, interval: 100 })
      .toEqual([]);

    await using second = start(port);
    await second.waitForOutput(/Sluice runs\./, START_MS);
    second.signal('SIGTERM');
    expect((await second.exited(60_000)).code).toBe(0);
  },
  300_000,
);

test.runIf(isLinux)(
  'a PostgreSQL that is killed ends the start, which says so',
  async () => {
    await using app = start(await freePort());
    await app.waitForOutput(/Sluice runs\./, START_MS);
    const pidFile = join(folder.path, 'sluice', 'postgres', 'data', 'postmaster.pid');
    process.kill(Number(readFileSync(pidFile, 'utf8').split('\n')[0]), 'SIGKILL');
    expect(await app.exited(60_000)).toEqual({ code: 1, signal: null });
    expect(app.output()).toContain('PostgreSQL ended by itself:');
  },
  300_000,
);

test.runIf(isLinux)(
  'a task runner that is killed takes its services with it, and the next start has their port',
  async () => {
    const port = await freePort();
    const state = join(folder.path, 'sluice');
    await using first = start(port);
    await first.waitForOutput(/Sluice runs\./, START_MS);
    const runner = processesOf(state).find((line) => /^\d+ \S+\/turbo run start/.test(line));
    process.kill(Number(runner?.split(' ')[0]), 'SIGKILL');
    expect(await first.exited(60_000)).toEqual({ code: 1, signal: null });
    expect(first.output()).toContain('The services ended by themselves');
    await expect.poll(() => processesOf(state), { timeout: 60_000, interval: 100 }).toEqual([]);

    await using second = start(port);
    await second.waitForOutput(/Sluice runs\./, START_MS);
    second.signal('SIGTERM');
    expect((await second.exited(60_000)).code).toBe(0);
  },
  300_000,
);

test('a taken port is said at once, with what to do', async () => {
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const { port } = taken.address() as { port: number };
  await using app = start(port);
  expect((await app.exited()).code).toBe(1);
  expect(app.output()).toContain(`expected 127.0.0.1:${port} to be free, got EADDRINUSE`);
  expect(app.output()).toContain(`SLUICE_LISTEN=127.0.0.1:${port + 1} npm start`);
  taken.close();
});

test.each([
  ['localhost', 'DATABASE_URL: expected a URL that starts with postgres://'],
  ['postgres://nobody@127.0.0.1:1/none', 'The database cannot be used: connect ECONNREFUSED'],
])('DATABASE_URL=%s ends in one sentence', async (url, sentence) => {
  await using app = spawnApp({
    file: MAIN,
    env: {
      SLUICE_DATA_DIR: join(folder.path, 'sluice'),
      SLUICE_LISTEN: `127.0.0.1:${await freePort()}`,
      DATABASE_URL: url,
    },
  });
  expect((await app.exited()).code).toBe(1);
  expect(app.output()).toContain(sentence);
  expect(app.output()).not.toMatch(/\n\s+at /);
});

test('an effect that runs on after Ctrl-C is handed back before anything kills its dispatcher', async () => {
  const port = await freePort();
  const git = await makeRepo(join(folder.path, 'repo'));
  await commitFiles(git, { 'a.txt': 'a' });
  await defineEffect(git, 'long', "on: ['refs/heads/*']\nrun: echo started; sleep 300\n");
  await using app = start(port);
  await app.waitForOutput(/Sluice runs\./, START_MS);
  await git(['push', '--quiet', `http://127.0.0.1:${port}/a.git`, 'main', 'refs/meta/effects/long']);
  const cli = join(import.meta.dirname, '../../cli/bin/sluice');
  await expect
    .poll(() => shell(`'${cli}' log 1`, git.folder), { timeout: 60_000, interval: 200 })
    .toContain('started');

  app.signal('SIGINT');
  expect(await app.exited(60_000)).toEqual({ code: 0, signal: null });
  const log = readFileSync(join(folder.path, 'sluice', 'services.log'), 'utf8');
  expect(log).toContain('"handed_back":1');
}, 300_000);

test.runIf(isLinux)(
  'a second Ctrl-C ends everything at once, an effect that ignores signals included',
  async () => {
    const port = await freePort();
    // No other process of the machine sleeps that long.
    const seconds = `30${randomInt(1e8, 1e9)}`;
    const git = await makeRepo(join(folder.path, 'repo'));
    await commitFiles(git, { 'a.txt': 'a' });
    await defineEffect(
      git,
      'deaf',
      `on: ['refs/heads/*']\nrun: trap '' INT TERM; echo started; sleep ${seconds}; sleep ${seconds}\n`,
    );
    await using app = start(port);
    await app.waitForOutput(/Sluice runs\./, START_MS);
    await git(['push', '--quiet', `http://127.0.0.1:${port}/a.git`, 'main', 'refs/meta/effects/deaf']);
    await expect.poll(() => processesOf(seconds), { timeout: 60_000, interval: 100 }).not.toEqual([]);

    app.signal('SIGINT');
    await app.waitForOutput(/Stopping: no new work/);
    // Two signals within half a second are one key press.
    await sleep(600);
    app.signal('SIGINT');
    expect(await app.exited(60_000)).toEqual({ code: 130, signal: null });
    expect(app.output()).toContain('Stopping at once.');
    expect(app.output()).not.toMatch(/\n\s+at /);
    const log = readFileSync(join(folder.path, 'sluice', 'services.log'), 'utf8');
    // It would have been handed back when the grace was over.
    expect(log).not.toContain('"handed_back"');
    for (const of of [seconds, join(folder.path, 'sluice')])
      await expect.poll(() => processesOf(of), { timeout: 60_000, interval: 100 }).toEqual([]);
  },
  300_000,
);
