import { useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { claimEffects } from './claim-effects.ts';
import { completeEffect } from './complete-effect.ts';
import { enqueueEffect } from './enqueue-effect.ts';
import { findClaim, openClaim } from './open-claim.ts';

const database = useTestDatabase();

async function claimed(repoId: string) {
  await enqueueEffect(database.db, { repoId, payload: 'x', name: 'build' });
  const [effect] = await claimEffects(database.db, { repoId, claimedBy: 'w', limit: 1 });
  return effect!;
}

test('finds the open claim of its repo by number, and nothing once it is completed', async () => {
  const effect = await claimed('o/1');
  const { repoId, claimNumber } = effect;
  const find = (request: { repoId: string; claimNumber: bigint }) =>
    database.db.transaction().execute((trx) => openClaim(trx, request));
  expect(await find({ repoId, claimNumber })).toEqual(effect);
  expect(await findClaim(database.db, { repoId, claimNumber })).toEqual(effect);
  expect(await find({ repoId: 'o/2', claimNumber })).toBeUndefined();
  await completeEffect(database.db, effect);
  expect(await find({ repoId, claimNumber })).toBeUndefined();
  expect(await findClaim(database.db, { repoId, claimNumber })).toBeUndefined();
});

test('another completion waits for the transaction that opened the claim, and then is stale', async () => {
  const effect = await claimed('o/3');
  let other: Promise<string> | undefined;
  await database.db.transaction().execute(async (trx) => {
    const mine = await openClaim(trx, { repoId: 'o/3', claimNumber: effect.claimNumber });
    other = completeEffect(database.db, effect, { outcome: 'fail' });
    expect(await completeEffect(trx, mine!, { outcome: 'pass' })).toBe('completed');
  });
  expect(await other).toBe('stale');
});

test('a wrong claim number is refused by name', async () => {
  const attempt = database.db
    .transaction()
    .execute((trx) => openClaim(trx, { repoId: 'o/1', claimNumber: 7 as unknown as bigint }));
  await expect(attempt).rejects.toMatchObject({ code: 'invalid_argument' });
});
