import { useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { skipEffects } from './skip-effects.ts';

const database = useTestDatabase();

test('what is skipped is born finished, with its reason, in the order given', async () => {
  const ids = await skipEffects(database.db, [
    { repoId: 's/1', name: 'build', payload: '{}', reason: 'too many hops', pushId: 'p' },
    { repoId: 's/1', name: 'test', payload: '{}', reason: 'branch is excluded' },
  ]);
  const rows = await database.db
    .selectFrom('effect')
    .select(['effect_id', 'name', 'state', 'reason', 'push_id', 'attempts'])
    .where('repo_id', '=', 's/1')
    .orderBy('effect_id')
    .execute();
  expect(rows).toEqual([
    {
      effect_id: ids[0],
      name: 'build',
      state: 'skipped',
      reason: 'too many hops',
      push_id: 'p',
      attempts: 0,
    },
    {
      effect_id: ids[1],
      name: 'test',
      state: 'skipped',
      reason: 'branch is excluded',
      push_id: null,
      attempts: 0,
    },
  ]);
});

test('a skip without a reason is refused; none is none', async () => {
  await expect(skipEffects(database.db, [{ repoId: 's/1', payload: '', reason: '' }])).rejects.toMatchObject({
    code: 'invalid_argument',
    message: expect.stringMatching(/^effects\[0\]\.reason: expected /),
  });
  expect(await skipEffects(database.db, [])).toEqual([]);
});
