import { SCHEMA, table, type DB } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql, type Kysely } from 'kysely';
import { beforeAll, describe, expect, test } from 'vitest';
import { claimStatement } from '../src/claim-effects.ts';
import { toClaimedEffect, type ClaimedRow } from '../src/claim.ts';
import { finishStatement } from '../src/finish-claims.ts';
import { insertManyQuery } from '../src/insert-effects.ts';
import { rowsTouched } from './rows-touched.ts';

const TABLES = ['effect_queue', 'effect_claim', 'effect_dedup', 'effect_history_default'] as const;
const BACKLOG = 30_000;
const OPEN = 1000;

const analyze = async (db: Kysely<DB>) => {
  for (const name of TABLES) await sql`vacuum (analyze) ${sql.id(SCHEMA, name)}`.execute(db);
};

describe.each(['never taken', 'taken when empty', 'taken when full', 'taken when emptied'])(
  'statistics %s',
  (when) => {
    const database = useTestDatabase();

    beforeAll(async () => {
      const { db } = database;
      for (const name of TABLES) {
        await sql`alter table ${sql.id(SCHEMA, name)} set (autovacuum_enabled = false)`.execute(db);
      }
      if (when === 'taken when empty') await analyze(db);
      if (when === 'taken when emptied') {
        await fill(db);
        for (const name of TABLES) await sql`delete from ${sql.id(SCHEMA, name)}`.execute(db);
        for (const name of TABLES) await sql`analyze ${sql.id(SCHEMA, name)}`.execute(db);
      }
      await fill(db);
      if (when === 'taken when full') await analyze(db);
    });

    test('a claim walks its own index and no further than its limit', async () => {
      const statement = claimStatement({ repoId: 'big', claimedBy: 'w', limit: 100 });
      const { rows, readWhole } = await rowsTouched(database.db, statement);
      expect(readWhole).not.toHaveProperty('effect_queue');
      expect(rows).toBeLessThan(20 * 100 + 10 * OPEN);
    });

    test('a completion costs the same few rows per claim, at 10 and at 1,000', async () => {
      const { rows } = await sql<ClaimedRow>`
      select c.*, q.name, q.payload, q.max_attempts, q.push_id from ${table('effect_claim')} c
        join ${table('effect_queue')} q on q.effect_id = c.effect_id order by c.claim_number`.execute(
        database.db,
      );
      const claims = rows.map(toClaimedEffect);
      expect(claims).toHaveLength(OPEN);
      for (const count of [10, OPEN]) {
        const finishes = claims
          .slice(0, count)
          .map((claim) => ({ claim, state: 'done', outcome: 'pass' }) as const);
        const touched = await rowsTouched(database.db, finishStatement(finishes));
        expect(touched.readWhole).not.toHaveProperty('effect_queue');
        expect(touched.readWhole).not.toHaveProperty('effect_dedup');
        // Reading all open claims at once (which PostgreSQL 15 does, and counts in three steps) is fine while they are few;
        // once per claim is not.
        expect(touched.rows).toBeLessThan(25 * count + 4 * OPEN);
      }
    });

    test('an insert reads nothing of what is there', async () => {
      const effects = Array.from({ length: 100 }, () => ({ repoId: 'big', payload: 'x' }));
      const { rows, readWhole } = await rowsTouched(
        database.db,
        insertManyQuery(effects, { unlessLimited: 'batch' }),
      );
      expect(readWhole).not.toHaveProperty('effect_queue');
      expect(rows).toBeLessThan(15 * 100);
    });
  },
);

/** Half of the backlog in one repo, a tenth with keys, and open claims on the oldest effects. */
async function fill(db: Kysely<DB>): Promise<void> {
  await sql`
    insert into ${table('effect_queue')} (repo_id, payload, dedup_key)
    select case when i % 2 = 0 then 'big' else 'repo/' || i % 1000 end, repeat('x', 100),
           case when i % 10 = 0 then 'k' || i end
      from generate_series(1, ${BACKLOG}::integer) i`.execute(db);
  await sql`
    insert into ${table('effect_dedup')} (repo_id, dedup_key, effect_id, is_retained)
    select repo_id, dedup_key, effect_id, effect_id % 20 = 0 from ${table('effect_queue')} where dedup_key is not null`.execute(
    db,
  );
  await sql`
    insert into ${table('effect_claim')} (repo_id, effect_id, attempt, claimant)
    select repo_id, effect_id, 1, 'w' from ${table('effect_queue')} order by effect_id limit ${OPEN}`.execute(
    db,
  );
}
