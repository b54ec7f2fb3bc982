import { SCHEMA, type DB } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql, type Kysely } from 'kysely';
import { beforeAll, describe, expect, test } from 'vitest';
import { fillQueue } from '../test/fill-queue.ts';
import { rowsTouched } from '../test/rows-touched.ts';
import { fairClaimLock } from './fair-claim-lock.ts';
import { fairClaimTake, type ClaimTurn } from './fair-claim-take.ts';

const TABLES = ['effect_queue', 'effect_claim', 'repo'] as const;
const REPOS = 20;
const WANT = 8;
const OPEN_ELSEWHERE = 1_000;

const forAll = async (db: Kysely<DB>, verb: 'analyze' | 'vacuum (analyze)' | 'delete from') => {
  for (const name of TABLES) await sql`${sql.raw(verb)} ${sql.id(SCHEMA, name)}`.execute(db);
};

/** Twenty repos with a little work between others with open claims, rows in `repo`, and one with a long backlog. */
async function fill(db: Kysely<DB>, backlog: number): Promise<void> {
  await fillQueue(db, 'noise', backlog / 2);
  for (let n = 0; n < REPOS; n += 1)
    await fillQueue(db, `r${n}`, 2 * WANT, { priority: n % 3 === 0 ? n - 9 : 0 });
  await fillQueue(db, 'noise', backlog / 2);
  await sql`insert into sluice.repo (repo_id) select 'r' || n from generate_series(0, 2000) n`.execute(db);
  await fillQueue(db, 'elsewhere', OPEN_ELSEWHERE);
  await sql`insert into sluice.effect_claim (repo_id, effect_id, attempt, claimant)
    select repo_id, effect_id, 1, 'w' from sluice.effect_queue where repo_id = 'elsewhere'`.execute(db);
}

async function touched(db: Kysely<DB>, turns: readonly ClaimTurn[]) {
  return await rowsTouched(db, fairClaimTake({ claimedBy: 'w', turns, defaultCap: 100 }), {
    after: [
      fairClaimLock(
        turns.map((turn) => turn.repoId),
        'w',
      ),
    ],
  });
}

describe.each(['never taken', 'taken when empty', 'taken when full', 'taken when emptied'])(
  'statistics %s',
  (when) => {
    const database = useTestDatabase();
    const turns = Array.from({ length: REPOS }, (_, n) => ({ repoId: `r${n}`, want: WANT }));

    beforeAll(async () => {
      const { db } = database;
      for (const name of TABLES) {
        await sql`alter table ${sql.id(SCHEMA, name)} set (autovacuum_enabled = false)`.execute(db);
      }
      if (when === 'taken when empty') await forAll(db, 'vacuum (analyze)');
      if (when === 'taken when emptied') {
        await fill(db, 10_000);
        await forAll(db, 'delete from');
        await forAll(db, 'analyze');
      }
      await fill(db, 100_000);
      if (when === 'taken when full') await forAll(db, 'vacuum (analyze)');
    });

    test('a claim touches what it takes, not the backlog or the claims of others', async () => {
      const { rows, readWhole } = await touched(database.db, turns);
      expect(readWhole).toEqual({});
      expect(rows).toBeLessThan(20 * REPOS * WANT);
    });

    test('claiming little of a long backlog touches little', async () => {
      const { rows, readWhole } = await touched(database.db, [{ repoId: 'noise', want: WANT }]);
      expect(readWhole).toEqual({});
      expect(rows).toBeLessThan(20 * WANT + 50);
    });

    test('the waiting mark is where the walk begins, past claimed effects', async () => {
      const { rows: all } = await sql<{ id: bigint }>`
        select max(effect_id) as id from sluice.effect_queue where repo_id = 'elsewhere'`.execute(
        database.db,
      );
      const turn = { repoId: 'elsewhere', want: WANT };
      const withoutMark = await rowsTouched(
        database.db,
        fairClaimTake({ claimedBy: 'w', turns: [turn], defaultCap: 5_000 }),
        { after: [fairClaimLock(['elsewhere'], 'w')] },
      );
      const withMark = await rowsTouched(
        database.db,
        fairClaimTake({
          claimedBy: 'w',
          turns: [{ ...turn, sinceEffectId: all[0]!.id, sinceClaimNumber: 2n ** 40n }],
          defaultCap: 5_000,
        }),
        { after: [fairClaimLock(['elsewhere'], 'w')] },
      );
      expect(withoutMark.rows).toBeGreaterThan(OPEN_ELSEWHERE);
      expect(withMark.rows).toBeLessThan(50);
    });
  },
);
