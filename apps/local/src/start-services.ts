import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort, supervise } from '@sluice/local-postgres';
import { killTree } from './kill-tree.ts';
import type { ChildProcess } from 'node:child_process';
import { LocalError } from './local-error.ts';
import { LogFollower, type ServiceEvent } from './log-follower.ts';
import { PROJECT_ROOT } from './project-root.ts';

export interface ServiceOptions {
  databaseUrl: string;
  /** `host:port` of the pusher. */
  listen: string;
  dataDir: string;
  logFile: string;
  env: NodeJS.ProcessEnv;
  /** Warnings and errors of the services, as they come. */
  onTrouble: (event: ServiceEvent) => void;
}

export interface RunningServices {
  pusherUrl: string;
  /** Settles when the services end, with what they said last, whether they were told to or not. */
  ended: Promise<string>;
  stop(): Promise<void>;
  /** Without any grace. */
  kill(): void;
}

const HEALTHY_WITHIN_MS = 90_000;
/** Turbo kills its tasks 10 s after the signal: an effect not handed back by then costs an attempt. */
const GRACE_MS_MAX = 5_000;
/** Longer than the grace of the apps, which end by themselves well before. */
const STOP_WITHIN_MS = 25_000;
const FOLLOW_EVERY_MS = 250;

/** Starts pusher and dispatcher through turbo and waits until both answer. */
export async function startServices(options: ServiceOptions): Promise<RunningServices> {
  const pusherUrl = `http://${options.listen}`;
  const healthListen = `127.0.0.1:${await freePort()}`;
  const output = openSync(options.logFile, 'w', 0o600);
  const follower = new LogFollower(options.logFile);
  const turbo = supervise({
    command: [
      findTurbo(),
      'run',
      'start',
      '--filter=@sluice/pusher',
      '--filter=@sluice/dispatcher',
      '--ui=stream',
    ],
    cwd: PROJECT_ROOT,
    env: serviceEnvironment(options, { pusherUrl, healthListen }),
    output,
    signal: 'INT',
  });
  closeSync(output);

  const follow = (): void => {
    for (const event of follower.read())
      if (event.level === 'warn' || event.level === 'error') options.onTrouble(event);
  };
  const following = setInterval(follow, FOLLOW_EVERY_MS);
  const ended = once(turbo, 'exit').then(() => {
    // A turbo that was killed leaves its tasks running, at the address that the next start needs.
    killTree(turbo.pid!);
    clearInterval(following);
    follow();
    return follower.tail();
  });
  const stop = async (): Promise<void> => {
    await stopTurbo(turbo, ended);
    follower[Symbol.dispose]();
  };
  try {
    await untilHealthy([pusherUrl, `http://${healthListen}`], ended);
  } catch (error) {
    await stop();
    throw error;
  }
  return { pusherUrl, ended, stop, kill: () => killTree(turbo.pid!) };
}

/** Turbo's launcher is a script that would not pass signals on. */
function findTurbo(): string {
  const arch = process.arch === 'x64' ? '64' : process.arch;
  const platform = `${process.platform === 'win32' ? 'windows' : process.platform}-${arch}`;
  const root = createRequire(join(PROJECT_ROOT, 'package.json'));
  return createRequire(root.resolve('turbo/package.json')).resolve(`@turbo/${platform}/bin/turbo`);
}

function serviceEnvironment(
  options: ServiceOptions,
  at: { pusherUrl: string; healthListen: string },
): NodeJS.ProcessEnv {
  return {
    ...options.env,
    PATH: `${join(PROJECT_ROOT, 'node_modules', '.bin')}:${options.env['PATH'] ?? ''}`,
    DATABASE_URL: options.databaseUrl,
    SLUICE_LOCAL: '1',
    SLUICE_LOG_FORMAT: 'json',
    SLUICE_LISTEN: options.listen,
    SLUICE_PUSHER_URL: at.pusherUrl,
    SLUICE_HEALTH_LISTEN: at.healthListen,
    SLUICE_DATA_DIR: options.dataDir,
    SLUICE_WORK_DIR: join(options.dataDir, 'work'),
    SLUICE_GRACE_MS: graceMs(options.env['SLUICE_GRACE_MS']),
    TURBO_TELEMETRY_DISABLED: '1',
    TURBO_NO_UPDATE_NOTIFIER: '1',
    DO_NOT_TRACK: '1',
    // pnpm asks nothing without a terminal.
    CI: 'true',
  };
}

/** A number that is too large becomes what turbo allows; what is no number is for the services to refuse. */
function graceMs(value = ''): string {
  if (value === '') return String(GRACE_MS_MAX);
  return Number(value) > GRACE_MS_MAX ? String(GRACE_MS_MAX) : value;
}

async function untilHealthy(urls: readonly string[], ended: Promise<string>): Promise<void> {
  let lastWords: string | undefined;
  void ended.then((tail) => (lastWords = tail));
  const end = performance.now() + HEALTHY_WITHIN_MS;
  for (const url of urls) {
    while (!(await isHealthy(url))) {
      if (lastWords !== undefined)
        throw new LocalError(`The services ended while they started:\n${lastWords}`);
      if (performance.now() > end)
        throw new LocalError(`No answer from ${url} within ${HEALTHY_WITHIN_MS / 1_000} s.`);
      await sleep(100);
    }
  }
}

async function isHealthy(url: string): Promise<boolean> {
  try {
    const response = await fetch(`${url}/_health`, { signal: AbortSignal.timeout(5_000) });
    await response.arrayBuffer();
    return response.ok;
  } catch {
    return false;
  }
}

async function stopTurbo(turbo: ChildProcess, ended: Promise<string>): Promise<void> {
  turbo.stdin?.on('error', () => undefined);
  turbo.stdin?.end();
  const timer = new AbortController();
  const isEnded = await Promise.race([
    ended.then(() => true),
    sleep(STOP_WITHIN_MS, false, { signal: timer.signal }).catch(() => false),
  ]);
  timer.abort();
  if (isEnded) return;
  killTree(turbo.pid!);
  await ended;
}
