import { createDatabase, type DB } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import type { Kysely } from 'kysely';
import { beforeEach, describe, expect, test } from 'vitest';
import { fairClaim } from '../src/fair-claim.ts';
import { finishClaims } from '../src/finish-claims.ts';
import { emptyQueue, fillQueue, openClaims } from './fill-queue.ts';

const database = useTestDatabase();

beforeEach(() => emptyQueue(database.db));

describe('with four claimers at once', () => {
  const REPOS = ['a', 'b', 'c', 'd', 'e', 'f'];
  const EACH = 40;

  test.each([{ globalCap: null }, { globalCap: 7 }])(
    'caps hold at every committed snapshot and each effect runs once ($globalCap)',
    async ({ globalCap }) => {
      await database.db.updateTable('queue_limit').set({ global_cap: globalCap }).execute();
      await database.db.insertInto('repo').values({ repo_id: 'a', cap: 1 }).execute();
      for (const repoId of REPOS) await fillQueue(database.db, repoId, EACH);
      const capOf = (repoId: string) => (repoId === 'a' ? 1 : 3);
      const ran: bigint[] = [];
      const processes = [1, 2, 3, 4].map(() =>
        createDatabase({ connectionString: database.url, applicationName: 'claimer', connectionsMax: 1 }),
      );
      let isDone = false;
      let samples = 0;
      const violations: unknown[] = [];
      const sample = async () => {
        while (!isDone) {
          const open = await openClaims(database.db);
          const total = Object.values(open).reduce((sum, count) => sum + count, 0);
          if (Object.entries(open).some(([repoId, count]) => count > capOf(repoId))) violations.push(open);
          if (globalCap !== null && total > globalCap) violations.push({ total });
          samples += 1;
        }
      };
      const drain = async (db: Kysely<DB>, claimedBy: string) => {
        const marks = new Map<string, { claim: bigint | null; effect: bigint | null }>();
        const held: Awaited<ReturnType<typeof fairClaim>>['effects'] = [];
        for (let idle = 0; ran.length < REPOS.length * EACH && idle < 5_000; idle += 1) {
          const { effects, findings } = await fairClaim(db, {
            claimedBy,
            defaultCap: 3,
            turns: REPOS.map((repoId) => ({
              repoId,
              want: 2,
              sinceClaimNumber: marks.get(repoId)?.claim ?? undefined,
            })),
          });
          for (const { repoId, lowestClaim, lowestWaiting } of findings) {
            marks.set(repoId, { claim: lowestClaim, effect: lowestWaiting });
          }
          held.push(...effects);
          const finished = held.splice(0, 2);
          const accepted = await finishClaims(
            db,
            finished.map((e) => ({ claim: e, state: 'done', outcome: 'pass' })),
          );
          expect(accepted).toHaveLength(finished.length);
          ran.push(...finished.map((effect) => effect.effectId));
        }
      };
      const sampling = sample();
      try {
        await Promise.all(processes.map((db, index) => drain(db, `d${index}`)));
      } finally {
        isDone = true;
        await sampling;
        await Promise.all(processes.map((db) => db.destroy()));
      }
      expect(violations).toEqual([]);
      expect(samples).toBeGreaterThan(0);
      expect(new Set(ran).size).toBe(ran.length);
      expect(ran).toHaveLength(REPOS.length * EACH);
    },
  );
});
