import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { assertWritable } from './assert-writable.ts';

const database = useTestDatabase();

test('a server that accepts writes is fine', async () => {
  await assertWritable(database.db);
});

test('a read-only one is named as such', async () => {
  await database.db.transaction().execute(async (trx) => {
    await sql`set transaction read only`.execute(trx);
    await expect(assertWritable(trx)).rejects.toMatchObject({
      code: 'database_read_only',
      message: expect.stringMatching(/^DATABASE_URL: expected a server that accepts writes, got one whose/),
    });
  });
});
