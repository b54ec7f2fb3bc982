import { useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { countRefs } from './count-refs.ts';

const database = useTestDatabase();

test('counts the refs of one repository but for those with a prefix, up to a limit', async () => {
  const { db } = database;
  const names = [
    'refs/heads/a',
    'refs/heads/b',
    'refs/meta/results',
    'refs/meta/results/ci/x',
    'refs/tags/v1',
  ];
  for (const repo_id of ['count/one', 'count/two']) {
    await db.insertInto('repo').values({ repo_id }).execute();
    await db
      .insertInto('ref')
      .values(names.map((name) => ({ repo_id, name, oid: '1'.repeat(40) })))
      .execute();
  }
  const count = (limit: number): Promise<number> =>
    countRefs(db, 'count/one', { except: 'refs/meta/results/', limit });
  expect([await count(100), await count(4), await count(3), await count(1)]).toEqual([4, 4, 3, 1]);
  expect(await countRefs(db, 'count/none', { except: 'refs/meta/results/', limit: 9 })).toBe(0);
});
