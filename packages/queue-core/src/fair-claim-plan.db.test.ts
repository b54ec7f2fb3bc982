import { SCHEMA, type DB } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql, type Kysely } from 'kysely';
import { beforeAll, describe, expect, test } from 'vitest';
import { fillQueue } from '../test/fill-queue.ts';
import { rowsRead } from '../test/buffers-touched.ts';
import { fairClaim, type ClaimTurn } from './fair-claim.ts';

const TABLES = ['effect_queue', 'effect_claim', 'repo'] as const;
const REPOS = 20;
const WANT = 8;
const OPEN_ELSEWHERE = 1_000;

const forAll = async (db: Kysely<DB>, verb: 'analyze' | 'vacuum (analyze)' | 'delete from') => {
  for (const name of TABLES) await sql`${sql.raw(verb)} ${sql.id(SCHEMA, name)}`.execute(db);
};

/** Twenty repos with a little work between others with open claims, rows in `repo`, and one with a long backlog. */
async function fill(db: Kysely<DB>, backlog: number, noise = 'noise'): Promise<void> {
  await fillQueue(db, noise, backlog / 2);
  for (let n = 0; n < REPOS; n += 1)
    await fillQueue(db, `r${n}`, 2 * WANT, { priority: n % 3 === 0 ? n - 9 : 0 });
  await fillQueue(db, noise, backlog / 2);
  await sql`insert into sluice.repo (repo_id) select 'r' || n from generate_series(0, 2000) n`.execute(db);
  await fillQueue(db, 'elsewhere', OPEN_ELSEWHERE);
  await sql`insert into sluice.effect_claim (repo_id, effect_id, attempt, claimant)
    select repo_id, effect_id, 1, 'w' from sluice.effect_queue where repo_id = 'elsewhere'`.execute(db);
}

const claimed = async (db: Kysely<DB>, turns: readonly ClaimTurn[], defaultCap: number) =>
  await rowsRead(db, async (trx) => {
    const { effects } = await fairClaim(trx, { claimedBy: 'w', turns, defaultCap });
    expect(effects).toHaveLength(turns.reduce((sum, turn) => sum + turn.want, 0));
  });

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
        // Of another name: the index entries of deleted rows are read until somebody marks them.
        await fill(db, 10_000, 'gone');
        await forAll(db, 'delete from');
        await forAll(db, 'analyze');
      }
      await fill(db, 100_000);
      if (when === 'taken when full') await forAll(db, 'vacuum (analyze)');
    });

    test('a claim reads what it takes, not the backlog or the claims of others', async () => {
      const { rows, readWhole } = await claimed(database.db, turns, 100);
      expect(readWhole).toEqual([]);
      expect(rows).toBeLessThan(5 * REPOS * WANT);
    });

    test('claiming little of a long backlog reads little', async () => {
      const { rows, readWhole } = await claimed(database.db, [{ repoId: 'noise', want: WANT }], 100);
      expect(readWhole).toEqual([]);
      expect(rows).toBeLessThan(5 * WANT);
    });

    test('the waiting mark is where the walk begins, past claimed effects', async () => {
      const { rows: all } = await sql<{ id: bigint }>`
        select max(effect_id) as id from sluice.effect_queue where repo_id = 'elsewhere'`.execute(
        database.db,
      );
      await sql`insert into sluice.effect_queue (effect_id, repo_id, payload)
        select ${all[0]!.id}::bigint + 1000000 + n, 'elsewhere', '' from generate_series(1, ${WANT}::int) n`.execute(
        database.db,
      );
      const turn = { repoId: 'elsewhere', want: WANT };
      const withoutMark = await claimed(database.db, [turn], 5_000);
      const marks = { sinceEffectId: all[0]!.id, sinceClaimNumber: 2n ** 40n };
      const withMark = await claimed(database.db, [{ ...turn, ...marks }], 5_000);
      expect(withoutMark.rows).toBeGreaterThan(OPEN_ELSEWHERE);
      expect(withMark.rows).toBeLessThan(50);
    });
  },
);
