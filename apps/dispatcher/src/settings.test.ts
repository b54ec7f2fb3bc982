import { expect, it } from 'vitest';
import { readDispatcherSettings } from './settings.ts';

const DATABASE = { DATABASE_URL: 'postgres://localhost/sluice' };

it('needs a database and nothing else', () => {
  expect(readDispatcherSettings(DATABASE)).toMatchObject({
    pusherUrl: 'http://127.0.0.1:7420',
    token: undefined,
    slots: 8,
    repoCap: 4,
    executor: 'auto',
    readOnlyPaths: [],
    isLocal: false,
  });
});

it('reports all that is wrong, and no secrets', () => {
  const env = {
    SLUICE_SLOTS: '0',
    SLUICE_PUSHER_URL: 'http://user:hunter2@host',
    SLUICE_EXECUTOR: 'docker',
    SLUICE_SANDBOX_PATHS: 'opt',
  };
  expect(() => readDispatcherSettings(env)).toThrow(
    /DATABASE_URL.*SLUICE_PUSHER_URL.*SLUICE_SLOTS.*SLUICE_EXECUTOR.*SLUICE_SANDBOX_PATHS/s,
  );
  expect(() => readDispatcherSettings(env)).not.toThrow(/hunter2/);
});

it('refuses a heartbeat that would lose the lease', () => {
  expect(() => readDispatcherSettings({ ...DATABASE, SLUICE_LEASE_MS: '6000' })).toThrow(
    'SLUICE_BEAT_MS: expected at most half',
  );
});
