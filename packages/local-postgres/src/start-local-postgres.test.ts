import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { startLocalPostgres, startThrowawayPostgres } from './start-local-postgres.ts';

const WAIT = { timeout: 30_000, interval: 50 };
const entry = fileURLToPath(new URL('./index.ts', import.meta.url));

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'local-postgres-test-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

async function query<T = unknown>(url: string, text: string): Promise<T[]> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  try {
    return (await client.query({ text, rowMode: 'array' })).rows.map((row: T[]) => row[0]!);
  } finally {
    await client.end();
  }
}

/** A program that starts a server, prints what it got and waits to be killed. */
async function program(
  call: string,
  env: NodeJS.ProcessEnv = {},
): Promise<{ child: ChildProcess; url: string; dataDir: string }> {
  const script = `
    const { startLocalPostgres, startThrowawayPostgres } = await import(${JSON.stringify(entry)});
    const server = await ${call};
    console.log(JSON.stringify({ url: server.url, dataDir: server.dataDir }));
    setInterval(() => {}, 60_000);`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  return { child, ...(JSON.parse(line.toString()) as { url: string; dataDir: string }) };
}

async function kill(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

const postmasterPid = (): number =>
  Number(readFileSync(join(folder, 'data', 'postmaster.pid'), 'utf8').split('\n')[0]);

/** A zombie that nobody collects, as in a container without an init, is not alive: its command line is empty. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return process.platform !== 'linux' || readFileSync(`/proc/${pid}/cmdline`, 'utf8') !== '';
  } catch {
    return false;
  }
}

test.each([15, 18] as const)('version %i starts, answers and leaves nothing behind', async (version) => {
  const server = await startThrowawayPostgres({ version });
  expect(await query(server.url, 'show server_version_num')).toEqual([expect.stringMatching(`^${version}`)]);
  expect(await query(server.url, 'show server_encoding')).toEqual(['UTF8']);
  const pid = Number(readFileSync(join(server.dataDir, 'data', 'postmaster.pid'), 'utf8').split('\n')[0]);
  await server.stop();
  await server.stop();
  expect(isAlive(pid)).toBe(false);
  expect(existsSync(server.dataDir)).toBe(false);
});

test('only the password opens it, over loopback only, and only the owner can read the password', async () => {
  await using server = await startLocalPostgres({ dataDir: folder });
  const wrong = new URL(server.url);
  wrong.password = 'guess';
  await expect(query(wrong.href, 'select 1')).rejects.toMatchObject({ code: '28P01' });
  wrong.password = '';
  await expect(query(wrong.href, 'select 1')).rejects.toThrow();
  expect(
    await query(
      server.url,
      `select concat_ws('|', current_setting('listen_addresses'), current_setting('unix_socket_directories'))`,
    ),
  ).toEqual(['127.0.0.1|']);
  expect(await query(server.url, `select distinct auth_method from pg_hba_file_rules`)).toEqual([
    'scram-sha-256',
  ]);
  expect(statSync(join(folder, 'password')).mode & 0o777).toBe(0o600);
  expect(statSync(join(folder, 'data')).mode & 0o077).toBe(0);
});

test('a second start keeps data and password', async () => {
  const first = await startLocalPostgres({ dataDir: folder });
  await query(first.url, 'create table kept as select 42 as answer');
  await first.stop();
  await using second = await startLocalPostgres({ dataDir: folder, port: first.port });
  expect(second.url).toBe(first.url);
  expect(await query(second.url, 'select answer from kept')).toEqual([42]);
});

test('a first start that was cut off does not disturb the next one', async () => {
  mkdirSync(join(folder, 'data.new'));
  writeFileSync(join(folder, 'data.new', 'PG_VERSION'), '18');
  await using server = await startLocalPostgres({ dataDir: folder });
  expect(await query(server.url, 'select 1')).toEqual([1]);
});

test('kill -9 of the program ends the server, and the next start finds its data', async () => {
  const { child, url } = await program(`startLocalPostgres({ dataDir: ${JSON.stringify(folder)} })`);
  await query(url, 'create table kept as select 42 as answer');
  const pid = postmasterPid();
  await kill(child);
  await using server = await startLocalPostgres({ dataDir: folder });
  expect(isAlive(pid)).toBe(false);
  expect(await query(server.url, 'select answer from kept')).toEqual([42]);
});

test('kill -9 of a program with a throwaway server removes server and folder', async () => {
  const { child, dataDir } = await program('startThrowawayPostgres()');
  const pid = Number(readFileSync(join(dataDir, 'data', 'postmaster.pid'), 'utf8').split('\n')[0]);
  await kill(child);
  await vi.waitFor(() => expect([isAlive(pid), existsSync(dataDir)]).toEqual([false, false]), WAIT);
});

test.runIf(process.platform === 'linux')(
  'an orphan whose supervisor was killed too is replaced',
  async () => {
    const { child } = await program(`startLocalPostgres({ dataDir: ${JSON.stringify(folder)} })`);
    const orphan = postmasterPid();
    const stat = readFileSync(`/proc/${orphan}/stat`, 'utf8');
    process.kill(Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]), 'SIGKILL');
    await kill(child);
    await using server = await startLocalPostgres({ dataDir: folder });
    expect(postmasterPid()).not.toBe(orphan);
    expect(isAlive(orphan)).toBe(false);
    expect(await query(server.url, 'select 1')).toEqual([1]);
  },
);

test('a pid file that names a stranger is not believed', async () => {
  await (await startLocalPostgres({ dataDir: folder })).stop();
  writeFileSync(join(folder, 'data', 'postmaster.pid'), `${process.pid}\n${join(folder, 'data')}\n`);
  await using server = await startLocalPostgres({ dataDir: folder });
  expect(await query(server.url, 'select 1')).toEqual([1]);
});

test('a folder that another program uses is refused, and that program keeps its server', async () => {
  await using first = await startLocalPostgres({ dataDir: folder });
  await expect(startLocalPostgres({ dataDir: folder })).rejects.toThrow(
    /expected .* to be free, got a server \(process \d+\)/,
  );
  expect(await query(first.url, 'select 1')).toEqual([1]);
});

test('data of another version is refused by name', async () => {
  mkdirSync(join(folder, 'data'));
  writeFileSync(join(folder, 'data', 'PG_VERSION'), '14\n');
  await expect(startLocalPostgres({ dataDir: folder })).rejects.toThrow('to hold version 18, got 14');
});

test('a taken port is an error with the reason', async () => {
  await using other = await startThrowawayPostgres();
  await expect(startLocalPostgres({ dataDir: folder, port: other.port })).rejects.toThrow('could not bind');
});

const isRootOnLinux = process.platform === 'linux' && process.getuid?.() === 0;

test.runIf(isRootOnLinux)('root without namespaces drops to another user', async () => {
  const bin = join(folder, 'bin');
  mkdirSync(bin);
  for (const name of ['setpriv', 'true', 'rm']) symlinkSync(join('/usr/bin', name), join(bin, name));
  const dataDir = join(folder, 'server');
  const { child, url } = await program(`startLocalPostgres({ dataDir: ${JSON.stringify(dataDir)} })`, {
    PATH: bin,
  });
  try {
    expect(await query(url, 'select 1')).toEqual([1]);
    expect(statSync(join(dataDir, 'data')).uid).toBe(65_534);
  } finally {
    await kill(child);
  }
  // Back to a namespace: the data changes hands again.
  await using server = await startLocalPostgres({ dataDir });
  expect(await query(server.url, 'select 1')).toEqual([1]);
});
