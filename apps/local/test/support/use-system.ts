import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { spawnApp, useTempFolder, type SpawnedApp } from '@sluice/testkit';
import { afterEach, onTestFailed } from 'vitest';

export interface Pusher extends SpawnedApp {
  url: string;
}

export interface Dispatcher extends SpawnedApp {
  /** The id it registered under first. */
  dispatcherId: string;
}

export interface System {
  /** Of the running test; removed after it. */
  readonly folder: string;
  /** Starts a pusher process; all pushers of a test share one object store. */
  startPusher(env?: Record<string, string>): Promise<Pusher>;
  /**
   * Starts a dispatcher process with a work folder of its own, as if on another machine. Its effects may read `paths`;
   * leases are short unless the settings say otherwise.
   */
  startDispatcher(options: {
    pusherUrl: string;
    env?: Record<string, string>;
    paths?: readonly string[];
  }): Promise<Dispatcher>;
  /** A folder that effects see only if their dispatcher was given it. */
  makeGate(): Gate;
}

export interface Gate {
  path: string;
  /** Shell text that says `started`, waits until the gate is open, and says `ended`. */
  command: string;
  open(): void;
}

const PUSHER = fileURLToPath(new URL('../../../pusher/src/main.ts', import.meta.url));
const DISPATCHER = fileURLToPath(new URL('../../../dispatcher/src/main.ts', import.meta.url));

const SHORT_TIMES = { SLUICE_LEASE_MS: '2000', SLUICE_BEAT_MS: '400', SLUICE_POLL_MS: '300' };

/** Pusher and dispatcher processes on a database, ended after each test. */
export function useSystem(database: { readonly url: string }): System {
  const folder = useTempFolder();
  const apps: SpawnedApp[] = [];
  let count = 0;
  afterEach(async () => {
    await Promise.all(apps.splice(0).map((app) => app[Symbol.asyncDispose]()));
  });
  const start = (file: string, env: Record<string, string>): SpawnedApp => {
    const app = spawnApp({ file, env: { DATABASE_URL: database.url, ...env } });
    apps.push(app);
    onTestFailed(() => void process.stderr.write(`--- ${file}, process ${app.pid}\n${app.output()}\n`));
    return app;
  };
  return {
    get folder() {
      return folder.path;
    },
    async startPusher(env = {}) {
      const app = start(PUSHER, {
        SLUICE_DATA_DIR: join(folder.path, 'data'),
        SLUICE_LISTEN: '127.0.0.1:0',
        ...env,
      });
      const [, url] = await app.waitForOutput(eventWith('pusher_started', 'url'), STARTED_WITHIN_MS);
      return { ...app, url: url! };
    },
    async startDispatcher({ pusherUrl, env = {}, paths = [] }) {
      count += 1;
      const app = start(DISPATCHER, {
        SLUICE_PUSHER_URL: pusherUrl,
        SLUICE_EXECUTOR: 'bubblewrap',
        SLUICE_WORK_DIR: join(folder.path, `work-${count}`),
        ...(paths.length === 0 ? {} : { SLUICE_SANDBOX_PATHS: paths.join(':') }),
        ...SHORT_TIMES,
        ...env,
      });
      const [, dispatcherId] = await app.waitForOutput(
        eventWith('dispatcher_started', 'dispatcher_id'),
        STARTED_WITHIN_MS,
      );
      return { ...app, dispatcherId: dispatcherId! };
    },
    makeGate() {
      count += 1;
      const path = join(folder.path, `gate-${count}`);
      mkdirSync(path);
      return {
        path,
        command: `echo started; while [ ! -e ${path}/open ]; do sleep 0.05; done; echo ended`,
        open: () => writeFileSync(join(path, 'open'), ''),
      };
    },
  };
}

const STARTED_WITHIN_MS = 60_000;

/** Matches a log line of the event, and captures a field. */
export function eventWith(event: string, field: string): RegExp {
  return new RegExp(`^(?=.*"event":"${event}").*"${field}":"?([^",}]+).*$`, 'm');
}
