import { useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';

const database = useTestDatabase();

test('fails', async () => {
  await database.db.insertInto('repo').values({ repo_id: 'evidence' }).execute();
  expect(1).toBe(2);
});
