import { useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';

const database = useTestDatabase();

test('passes', async () => {
  process.stderr.write(`url of passes: ${database.url}\n`);
  expect(await database.db.selectFrom('repo').selectAll().execute()).toEqual([]);
});
