import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test, vi } from 'vitest';
import { CHANNELS, listen } from './listen.ts';

const database = useTestDatabase();
const WAIT = { timeout: 20_000, interval: 20 };

const notify = (payload: string): Promise<unknown> =>
  sql`select pg_notify(${CHANNELS.effects}, ${payload})`.execute(database.db);

test('hears notifications, and again after its connection was terminated', async () => {
  const heard: string[] = [];
  let readied = 0;
  await using _ = listen({
    connectionString: database.url,
    channels: ['sluice_other', CHANNELS.effects],
    onNotification: (channel, payload) => heard.push(`${channel} ${payload}`),
    onReady: () => (readied += 1),
  });
  await vi.waitFor(() => expect(readied).toBe(1), WAIT);
  await notify('1 acme/api');
  await vi.waitFor(() => expect(heard).toEqual(['sluice_effects 1 acme/api']), WAIT);

  const { rows } = await sql`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name = 'sluice-listen'`.execute(database.db);
  expect(rows).toHaveLength(1);
  await vi.waitFor(() => expect(readied).toBe(2), WAIT);
  await notify('2 acme/api');
  await vi.waitFor(
    () => expect(heard).toEqual(['sluice_effects 1 acme/api', 'sluice_effects 2 acme/api']),
    WAIT,
  );
});

test('keeps trying while there is no server, reports why, and stops when disposed', async () => {
  const errors: unknown[] = [];
  const listener = listen({
    connectionString: 'postgres://nobody@127.0.0.1:1/none',
    channels: [CHANNELS.effects],
    onNotification: () => {},
    onReady: () => {},
    onError: (error) => errors.push(error),
  });
  await vi.waitFor(() => expect(errors.length).toBeGreaterThan(2), WAIT);
  await listener[Symbol.asyncDispose]();
  expect(errors[0]).toMatchObject({ code: 'ECONNREFUSED' });
});
