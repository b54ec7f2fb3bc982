import { createDatabase, type DB } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql, type Kysely } from 'kysely';
import { beforeEach, expect, test, vi } from 'vitest';
import { claimEffects } from '../src/claim-effects.ts';
import { dispatcherClaim } from '../src/dispatcher-claim.ts';
import { fairClaim } from '../src/fair-claim.ts';
import { emptyQueue, fillQueue, openClaims } from './fill-queue.ts';

const database = useTestDatabase();

beforeEach(() => emptyQueue(database.db));

const KINDS = {
  claimEffects: (db: Kysely<DB>, repoId: string) => claimEffects(db, { repoId, claimedBy: 'me', limit: 1 }),
  dispatcherClaim: (db: Kysely<DB>, repoId: string) =>
    dispatcherClaim(db, { claimedBy: 'me', limit: 1, excludeRepos: [repoId === 'a' ? 'b' : 'a'] }),
  fairClaim: (db: Kysely<DB>, repoId: string) =>
    fairClaim(db, { claimedBy: 'me', turns: [{ repoId, want: 1 }], defaultCap: 5 }),
};
type Kind = keyof typeof KINDS;
const PAIRS = (Object.keys(KINDS) as Kind[]).flatMap((under) =>
  (Object.keys(KINDS) as Kind[]).map((later) => ({ under, later })),
);

test.each(PAIRS)(
  'a global cap where there was none counts a $under under way, in a later $later',
  async ({ under, later }) => {
    const { db } = database;
    await fillQueue(db, 'a', 1);
    await fillQueue(db, 'b', 1);
    const other = createDatabase({ connectionString: database.url, applicationName: 'later' });
    try {
      const [claiming] = await db.transaction().execute(async (trx) => {
        await KINDS[under](trx, 'a');
        await db.updateTable('queue_limit').set({ global_cap: 1 }).execute();
        const claim = KINDS[later](other, 'b');
        await vi.waitFor(
          async () => {
            const { rows } = await sql`select from pg_stat_activity
              where datname = current_database() and application_name = 'later'
                and wait_event_type = 'Lock' and wait_event = 'advisory'`.execute(db);
            expect(rows).toHaveLength(1);
          },
          { timeout: 4_000, interval: 10 },
        );
        return [claim];
      });
      await claiming;
      expect(await openClaims(db)).toEqual({ a: 1 });
    } finally {
      await other.destroy();
    }
  },
);
