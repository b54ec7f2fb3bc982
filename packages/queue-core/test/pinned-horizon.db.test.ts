import { createDatabase, table } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { dispatcherCompleteMany } from '../src/dispatcher-complete.ts';
import { fairClaim } from '../src/fair-claim.ts';
import { buffersTouched } from './buffers-touched.ts';
import { fillQueue } from './fill-queue.ts';

const database = useTestDatabase();

test('while a long transaction elsewhere keeps dead rows from being removed, a claim touches no more than before', async () => {
  await using db = createDatabase({
    connectionString: database.url,
    applicationName: 'test',
    connectionsMax: 1,
  });
  const pin = await database.db.startTransaction().setIsolationLevel('repeatable read').execute();
  await sql`select count(*) from ${table('effect_queue')}`.execute(pin);
  await fillQueue(db, 'a', 30_000);
  const BATCH = 250;
  let since: { sinceClaimNumber?: bigint; sinceEffectId?: bigint } = {};
  const claim = (trx: typeof db, want: number) =>
    fairClaim(trx, { claimedBy: 'w', turns: [{ repoId: 'a', want, ...since }], defaultCap: 1_000 });
  const touched: number[] = [];
  for (let batch = 0; batch < 100; batch += 1) {
    if (batch === 5 || batch === 99) touched.push(await buffersTouched(db, (trx) => claim(trx, 5)));
    const { effects, findings } = await claim(db, BATCH);
    expect(effects).toHaveLength(BATCH);
    const { lowestClaim, lowestWaiting } = findings[0]!;
    since = {
      ...(lowestClaim === null ? {} : { sinceClaimNumber: lowestClaim }),
      ...(lowestWaiting === null ? {} : { sinceEffectId: lowestWaiting }),
    };
    const done = effects.map((one) => ({ claim: one, outcome: 'pass' as const }));
    expect(await dispatcherCompleteMany(db, done)).toHaveLength(BATCH);
  }
  // Nothing that is dead could be removed meanwhile.
  const dead = await sql<{
    there: number;
  }>`select count(*)::int as there from ${table('effect_queue')}`.execute(pin);
  expect(dead.rows[0]!.there).toBe(0);
  await pin.rollback().execute();
  expect(touched[1]!).toBeLessThan(2 * touched[0]!);
});
