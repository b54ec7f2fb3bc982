import { useEmptyDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { startDispatcher } from '../src/index.ts';
import { PASS } from './dispatchers.ts';

const database = useEmptyDatabase();

test('on a database without the tables it does not start, and says where they come from', async () => {
  const { db } = database;
  const started = startDispatcher({ db, slots: 1, repoCap: 1, run: () => Promise.resolve(PASS) });
  await expect(started).rejects.toMatchObject({
    code: 'schema_out_of_date',
    message: expect.stringContaining('Run sluice migrate, or migrate in a program of your own') as string,
  });
});
