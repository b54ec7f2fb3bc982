import { useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
const database = useTestDatabase();
test('x', async () => {
  expect(await database.db.selectFrom('queue_limit').selectAll().execute()).toEqual([
    { is_singleton: true, global_cap: null },
  ]);
});
