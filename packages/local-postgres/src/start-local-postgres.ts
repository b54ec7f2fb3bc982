import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ChildProcess } from 'node:child_process';
import pg from 'pg';
import { findBinaries, type PostgresMajor } from './find-binaries.ts';
import { endFormerServer, endServer } from './former-server.ts';
import { freePort } from './free-port.ts';
import { initialiseCluster, type Cluster } from './initialise-cluster.ts';
import { supervise } from './supervisor.ts';
import { giveTo, unprivileged } from './unprivileged.ts';

export type { PostgresMajor } from './find-binaries.ts';

export interface LocalPostgresOptions {
  /** Folder of its own, made on first use: data, password (readable by the owner only), log. */
  dataDir: string;
  /** Default: a free one, another one at each start. */
  port?: number;
  version?: PostgresMajor;
  /** Server settings such as `{ max_connections: '50' }`. */
  settings?: Record<string, string>;
}

export interface LocalPostgres extends AsyncDisposable {
  /** Of the superuser `postgres`, password included. */
  url: string;
  port: number;
  dataDir: string;
  /** Settles when the server ends, with what its log said last, whether it was told to or not. */
  ended: Promise<string>;
  /** Ends every session and the server, within seconds; a second call waits for the first. */
  stop(): Promise<void>;
}

const START_ATTEMPTS_MAX = 5;
const READY_WITHIN_MS = 60_000;
const STOP_WITHIN_MS = 10_000;
const SETTINGS: Record<string, string> = {
  listen_addresses: '127.0.0.1',
  // The password is the only way in; a socket in a shared folder would be a second one.
  unix_socket_directories: '',
  max_connections: '200',
  logging_collector: 'off',
};
const UNSAFE_SETTINGS: Record<string, string> = {
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
};

/**
 * Starts a PostgreSQL server on the loopback interface and keeps its data. It ends when this process does, however that
 * ends; what a killed run left behind does not disturb the next start.
 */
export async function startLocalPostgres(options: LocalPostgresOptions): Promise<LocalPostgres> {
  return await start(options, {});
}

/** A server that trades durability for speed, in a temporary folder that goes when it stops. */
export async function startThrowawayPostgres(
  options: Omit<LocalPostgresOptions, 'dataDir'> = {},
): Promise<LocalPostgres> {
  const dataDir = mkdtempSync(join(tmpdir(), 'sluice-postgres-'));
  try {
    return await start(
      { ...options, dataDir, settings: { ...UNSAFE_SETTINGS, ...options.settings } },
      { removeAfter: dataDir },
    );
  } catch (error) {
    rmSync(dataDir, { recursive: true, force: true });
    throw error;
  }
}

async function start(options: LocalPostgresOptions, end: { removeAfter?: string }): Promise<LocalPostgres> {
  const version = options.version ?? 18;
  const binaries = findBinaries(version);
  const env = serverEnvironment();
  const runAs = unprivileged();
  const cluster = await initialiseCluster({
    folder: options.dataDir,
    version,
    initdb: binaries.initdb,
    env,
    runAs,
  });
  await endFormerServer(cluster.pgData);
  // Only now: a server that is still stopping, as another user, would leave files behind that this one cannot read.
  giveTo(cluster.pgData, runAs.uid);

  const logFile = join(options.dataDir, 'postgres.log');
  for (let attempt = 1; ; attempt += 1) {
    const port = options.port ?? (await freePort());
    const settings = { ...SETTINGS, ...options.settings, port: String(port) };
    const log = openSync(logFile, 'w', 0o600);
    const server = supervise({
      command: [
        ...runAs.prefix,
        binaries.postgres,
        '-D',
        cluster.pgData,
        ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
      ],
      env,
      output: log,
      // Nobody needs what a throwaway server would still write down.
      signal: end.removeAfter === undefined ? 'INT' : 'QUIT',
      ...end,
    });
    closeSync(log);
    const url = `postgres://postgres:${cluster.password}@127.0.0.1:${port}/postgres`;
    if (await isReady(server, url, cluster.pgData))
      return running(server, cluster, { url, port, dataDir: options.dataDir, logFile });
    const said = logTail(logFile);
    // Somebody else may take a free port before the server binds it, and the memory of a killed server takes a moment
    // to be freed.
    const isPortTaken = /could not bind/.test(said) && options.port === undefined;
    const isPassing = isPortTaken || /pre-existing shared memory/.test(said);
    if (!isPassing || attempt === START_ATTEMPTS_MAX) {
      throw new Error(`PostgreSQL did not start in ${options.dataDir}. Its log says: ${said}`);
    }
    await sleep(200 * attempt);
  }
}

function running(
  server: ChildProcess,
  cluster: Cluster,
  { logFile, ...about }: { url: string; port: number; dataDir: string; logFile: string },
): LocalPostgres {
  let stopping: Promise<void> | undefined;
  const stop = (): Promise<void> => (stopping ??= stopServer(server, cluster.pgData));
  // A program that has nothing else to do may end: the supervisor sees its pipe close.
  server.unref();
  (server.stdin as unknown as { unref?: () => void }).unref?.();
  const ended =
    server.exitCode === null && server.signalCode === null ? once(server, 'exit') : Promise.resolve();
  return { ...about, ended: ended.then(() => logTail(logFile)), stop, [Symbol.asyncDispose]: stop };
}

async function stopServer(server: ChildProcess, pgData: string): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return;
  server.ref();
  const ended = once(server, 'exit').then(() => true);
  server.stdin?.on('error', () => undefined);
  server.stdin?.end();
  const hurry = new AbortController();
  const isEnded = await Promise.race([
    ended,
    sleep(STOP_WITHIN_MS, false, { signal: hurry.signal }).catch(() => false),
  ]);
  hurry.abort();
  if (isEnded) return;
  await endServer(pgData);
  await ended;
}

/** A real query, since a server that accepts connections may still refuse sessions. False: the process ended. */
async function isReady(server: ChildProcess, url: string, pgData: string): Promise<boolean> {
  const end = performance.now() + READY_WITHIN_MS;
  while (server.exitCode === null && server.signalCode === null) {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000 });
    client.on('error', () => {});
    try {
      await client.connect();
      await client.query('select 1');
      return true;
    } catch (error) {
      if (performance.now() > end) {
        await stopServer(server, pgData);
        throw new Error(`PostgreSQL did not answer within ${READY_WITHIN_MS / 1_000} s`, { cause: error });
      }
      await sleep(25);
    } finally {
      await client.end().catch(() => undefined);
    }
  }
  return false;
}

/** Nothing of the caller's PG* settings, secrets or locale reaches the server. */
function serverEnvironment(): NodeJS.ProcessEnv {
  return { PATH: process.env['PATH'] ?? '/usr/bin:/bin', TZ: 'UTC', LC_ALL: 'C' };
}

function logTail(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim().split('\n').slice(-8).join('\n');
  } catch {
    return '(no log)';
  }
}
