import { useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { QUANTUM } from '../src/fair-scheduler.ts';
import { enqueue, PASS, useDispatchers } from './dispatchers.ts';

const database = useTestDatabase();
const start = useDispatchers(database);

const WEIGHTS: Record<string, number> = { light: 1, middle: 2, heavy: 5 };
const SLOTS = 8;
const EFFECTS = 400;

test.each([1, 3])('weights 1, 2 and 5 get their shares from %i dispatchers', async (count) => {
  const { db } = database;
  await db
    .insertInto('repo')
    .values(Object.entries(WEIGHTS).map(([repo_id, weight]) => ({ repo_id, weight, cap: 1_000 })))
    .execute();
  await enqueue(db, Object.keys(WEIGHTS), EFFECTS);
  const order: string[] = [];
  const run = async ({ repoId }: { repoId: string }) => {
    order.push(repoId);
    await new Promise((resolve) => setImmediate(resolve));
    return PASS;
  };
  const dispatchers = await Promise.all(Array.from({ length: count }, () => start(run, { slots: SLOTS })));
  await Promise.all(dispatchers.map((dispatcher) => dispatcher.idle()));
  expect(order).toHaveLength(3 * EFFECTS);

  // While all three have work: until the first of them is near its end.
  const served: Record<string, number> = { light: 0, middle: 0, heavy: 0 };
  for (const repoId of order) {
    served[repoId]! += 1;
    if (served[repoId]! > EFFECTS - count * SLOTS) break;
    for (const [a, weightA] of Object.entries(WEIGHTS)) {
      for (const [b, weightB] of Object.entries(WEIGHTS)) {
        // The bound of each dispatcher, and a batch of each that has begun and whose rest is about to start. Several
        // meet each other's locks, for as long as a busy machine takes, and make up for that only afterwards.
        const locks = count > 1 ? 2 : 1;
        const bound = locks * count * (QUANTUM + SLOTS) * (1 / weightA + 1 / weightB) + 1e-9;
        expect(Math.abs(served[a]! / weightA - served[b]! / weightB)).toBeLessThanOrEqual(bound);
      }
    }
  }
  expect(served['heavy']).toBeGreaterThan(2 * served['light']!);
});
