import { spawn } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { chmod, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { createPool } from '@sluice/db';
import { freePort } from '@sluice/local-postgres';
import { vi } from 'vitest';
import { makeTempFolder } from './temp-folder.ts';

export interface PgBouncer extends AsyncDisposable {
  /** The same database, through the pooler. */
  readonly url: string;
}

/** Connections to the server that all clients of a pooler share. */
export const PGBOUNCER_CONNECTIONS = 3;
const NOBODY = 65_534;

/** Starts PgBouncer in transaction mode in front of the given database, with fewer connections than clients. */
export async function startPgBouncer(databaseUrl: string): Promise<PgBouncer> {
  const program = findPgBouncer();
  const folder = makeTempFolder();
  const port = await freePort();
  const config = join(folder.path, 'pgbouncer.ini');
  await writeFile(config, configOf(new URL(databaseUrl), port));
  const isRoot = process.getuid?.() === 0;
  // It refuses to run as root.
  if (isRoot) await chmod(folder.path, 0o755);
  const child = spawn(program, [config], {
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(isRoot ? { uid: NOBODY, gid: NOBODY } : {}),
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (said += String(chunk)));
  const ended = new Promise<void>((resolve) =>
    child.once('close', () => resolve()).once('error', () => resolve()),
  );
  const kill = () => child.kill('SIGKILL');
  process.once('exit', kill);

  const url = new URL(databaseUrl);
  url.hostname = '127.0.0.1';
  url.port = String(port);
  await vi.waitUntil(
    async () => {
      if (child.exitCode !== null) throw new Error(`PgBouncer ended with ${child.exitCode}:\n${said}`);
      return await answers(url.href);
    },
    { timeout: 30_000, interval: 20 },
  );
  return {
    url: url.href,
    async [Symbol.asyncDispose]() {
      child.kill('SIGTERM');
      await ended;
      process.off('exit', kill);
      folder[Symbol.dispose]();
    },
  };
}

function findPgBouncer(): string {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin'];
  const found = folders.map((folder) => join(folder, 'pgbouncer')).find(isExecutable);
  if (found !== undefined) return found;
  throw new Error(
    'expected pgbouncer, which this test runs against, got none on the PATH. Install it, with apt-get install pgbouncer.',
  );
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function configOf(server: URL, port: number): string {
  const password = server.password === '' ? '' : ` password=${decodeURIComponent(server.password)}`;
  return [
    '[databases]',
    `* = host=${server.hostname} port=${server.port || '5432'} user=${decodeURIComponent(server.username)}${password}`,
    '[pgbouncer]',
    'pool_mode = transaction',
    'listen_addr = 127.0.0.1',
    `listen_port = ${port}`,
    'unix_socket_dir =',
    'auth_type = any',
    'ignore_startup_parameters = extra_float_digits',
    `default_pool_size = ${PGBOUNCER_CONNECTIONS}`,
    'max_client_conn = 200',
    '',
  ].join('\n');
}

async function answers(url: string): Promise<boolean> {
  const pool = createPool({
    connectionString: url,
    applicationName: 'test',
    connectionsMax: 1,
    connectTimeoutMs: 1000,
    pooler: 'transaction',
  });
  try {
    await pool.query('select 1');
    return true;
  } catch {
    return false;
  } finally {
    await pool.end();
  }
}
