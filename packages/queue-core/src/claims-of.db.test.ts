import { useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { dispatcherClaimsOf } from './claims-of.ts';

const database = useTestDatabase();

test('names the open claims of one claimant, and only those', async () => {
  const { db } = database;
  for (const [repo_id, claimant] of [
    ['a', 'me'],
    ['b', 'me'],
    ['a', 'other'],
  ] as const) {
    const { effect_id } = await db
      .insertInto('effect_queue')
      .values({ repo_id, payload: '' })
      .returning('effect_id')
      .executeTakeFirstOrThrow();
    await db.insertInto('effect_claim').values({ repo_id, effect_id, attempt: 1, claimant }).execute();
  }
  const claims = await dispatcherClaimsOf(db, 'me');
  expect(claims.map(({ repoId, attempt, claimant }) => ({ repoId, attempt, claimant }))).toEqual([
    { repoId: 'a', attempt: 1, claimant: 'me' },
    { repoId: 'b', attempt: 1, claimant: 'me' },
  ]);
  expect(
    claims.every(
      ({ effectId, claimNumber }) => typeof effectId === 'bigint' && typeof claimNumber === 'bigint',
    ),
  ).toBe(true);
});
