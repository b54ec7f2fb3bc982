import { useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { enqueue, PASS, useDispatchers } from './dispatchers.ts';
import { until } from './until.ts';

const database = useTestDatabase();
const start = useDispatchers(database);

test('while one batch of completions waits for a row, the next full one goes its way', async () => {
  const { db } = database;
  await enqueue(db, ['a'], 1_500);
  const mayEnd = Promise.withResolvers<void>();
  const dispatcher = await start(
    async () => {
      await mayEnd.promise;
      return PASS;
    },
    { slots: 1_500, repoCap: 3_000 },
  );
  await until('all run', () => dispatcher.stats.running === 1_500);
  await db.transaction().execute(async (holder) => {
    const oldest = holder.selectFrom('effect_claim').select('effect_id').orderBy('effect_id').limit(1);
    await oldest.forUpdate().execute();
    mayEnd.resolve();
    await until('two of three batches are stored', () => dispatcher.stats.completed === 1_000);
  });
  await until('the rest is stored', () => dispatcher.stats.completed === 1_500);
  expect(dispatcher.stats).toMatchObject({ stale: 0, retried: 0 });
  expect(dispatcher.of('completion_delayed')).toEqual([]);
});
