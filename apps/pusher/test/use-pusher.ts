import { useTempFolder, useTestDatabase, type TestDatabase } from '@sluice/testkit';
import { afterEach } from 'vitest';
import type { Logger } from '@sluice/service-kit';
import { readPusherSettings } from '../src/settings.ts';
import { startPusher, type RunningPusher } from '../src/start-pusher.ts';

export interface PusherFixture {
  readonly database: TestDatabase;
  /** A temporary folder of the running test. */
  readonly folder: string;
  /** Starts a pusher in this process; stopped after the test. */
  start(env?: Record<string, string>): Promise<RunningPusher>;
  /** Events that pushers of this test logged. */
  readonly events: { event: string; [field: string]: unknown }[];
}

/** A database per file; pushers and a folder per test. */
export function usePusher(): PusherFixture {
  const database = useTestDatabase();
  const folder = useTempFolder();
  const running: RunningPusher[] = [];
  const events: PusherFixture['events'] = [];
  const write = (event: PusherFixture['events'][number]): void => void events.push(event);
  const log: Logger = { debug: write, info: write, warn: write, error: write };
  afterEach(async () => {
    for (const pusher of running.splice(0)) await pusher.stop({ hurry: true });
    events.length = 0;
  });
  return {
    database,
    events,
    get folder() {
      return folder.path;
    },
    async start(env = {}) {
      const settings = readPusherSettings({
        DATABASE_URL: database.url,
        SLUICE_DATA_DIR: `${folder.path}/data`,
        SLUICE_LISTEN: '127.0.0.1:0',
        ...env,
      });
      const pusher = await startPusher(settings, log);
      running.push(pusher);
      return pusher;
    },
  };
}
