import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test, vi } from 'vitest';
import { CHANNELS, listen } from './listen.ts';

const database = useTestDatabase();
/** The last one it listens on. */
const OTHER = 'sluice_other';
const WAIT = { timeout: 20_000, interval: 20 };

const killListener = () =>
  sql`select pg_terminate_backend(pid) from pg_stat_activity
     where datname = current_database() and application_name = 'sluice-listen'`.execute(database.db);

test('it listens before it says so, each time: what is sent from then on is heard', async () => {
  const heard: string[] = [];
  const sent: Promise<unknown>[] = [];
  await using _ = listen({
    connectionString: database.url,
    channels: [CHANNELS.effects, OTHER],
    onNotification: (_channel, payload) => heard.push(payload),
    onReady: () => {
      const count = sent.length + 1;
      sent.push(sql`select pg_notify(${OTHER}, ${`at ready ${count}`})`.execute(database.db));
    },
  });
  const expected: string[] = [];
  for (let round = 1; round <= 4; round += 1) {
    expected.push(`at ready ${round}`);
    await vi.waitFor(() => expect(heard).toEqual(expected), WAIT);
    // One connection at a time, and none more than were lost.
    expect(sent).toHaveLength(round);
    await killListener();
  }
  await vi.waitFor(() => expect(heard).toHaveLength(5), WAIT);
  await Promise.all(sent);
});
