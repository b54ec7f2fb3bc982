import { useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { fillQueue } from '../test/fill-queue.ts';
import { rowsTouched } from '../test/rows-touched.ts';
import { arrivalsAfter, arrivalsStatement, highestEffectId } from './arrivals.ts';
import { claimEffects } from './claim-effects.ts';
import { enqueueEffects } from './enqueue-effects.ts';

const database = useTestDatabase();

test('tells what came after an effect, in order, and which of it waits', async () => {
  const { db } = database;
  const [first] = await enqueueEffects(db, [{ repoId: 'old', payload: 'x' }]);
  expect(await highestEffectId(db)).toBe(first!.effectId);
  const rest = await enqueueEffects(db, [
    { repoId: 'a', payload: 'x' },
    { repoId: 'b', payload: 'x', delayMs: 3_600_000 },
    { repoId: 'c', payload: 'x' },
  ]);
  await claimEffects(db, { repoId: 'c', claimedBy: 'w', limit: 1 });
  const ids = rest.map((effect) => effect.effectId);
  expect(await arrivalsAfter(db, { effectId: first!.effectId, limit: 10 })).toEqual([
    { effectId: ids[0], repoId: 'a', isWaiting: true },
    { effectId: ids[1], repoId: 'b', isWaiting: false },
    { effectId: ids[2], repoId: 'c', isWaiting: false },
  ]);
  expect(await arrivalsAfter(db, { effectId: ids[0]!, limit: 1 })).toMatchObject([{ effectId: ids[1] }]);
  expect(await arrivalsAfter(db, { effectId: ids[2]!, limit: 10 })).toEqual([]);
  expect(await highestEffectId(db)).toBe(ids[2]);
});

test('reads what it returns, whatever waits before and after', async () => {
  await fillQueue(database.db, 'noise', 20_000);
  const { rows, readWhole } = await rowsTouched(database.db, arrivalsStatement(5_000n, 100));
  expect(readWhole).toEqual({});
  expect(rows).toBeLessThan(1_000);
});
