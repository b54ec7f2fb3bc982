import { table } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { opRecords, recordOp } from './record-op.ts';

const database = useTestDatabase();
let oids = 0;
const oid = () => (oids += 1).toString(16).padStart(40, '0');

test('numbers accepted pushes from 1 without gaps, the most recent first', async () => {
  const pushes = [oid(), oid(), oid()];
  for (const opOid of pushes) await recordOp(database.db, { repoId: 'op/1', opOid });
  expect(await opRecords(database.db, { repoId: 'op/1' })).toEqual([
    { opOid: pushes[2], seq: 3n, parent: pushes[1], createdAt: expect.any(Date) },
    { opOid: pushes[1], seq: 2n, parent: pushes[0], createdAt: expect.any(Date) },
    { opOid: pushes[0], seq: 1n, parent: null, createdAt: expect.any(Date) },
  ]);
  expect(await opRecords(database.db, { repoId: 'op/1', limit: 1 })).toHaveLength(1);
  expect(await opRecords(database.db, { repoId: 'no/such' })).toEqual([]);
});

test('recording a push again changes nothing; another repo cannot record it', async () => {
  const opOid = oid();
  expect(await recordOp(database.db, { repoId: 'op/2', opOid })).toBe(1n);
  expect(await recordOp(database.db, { repoId: 'op/2', opOid })).toBe(1n);
  await expect(recordOp(database.db, { repoId: 'op/3', opOid })).rejects.toMatchObject({
    code: 'invalid_argument',
  });
  expect(await opRecords(database.db, { repoId: 'op/2' })).toHaveLength(1);
});

test('concurrent pushes leave no gap, and a rolled back one none either', async () => {
  const attempt = database.db.transaction().execute(async (trx) => {
    await recordOp(trx, { repoId: 'op/4', opOid: oid() });
    throw new Error('no');
  });
  await expect(attempt).rejects.toThrow('no');
  const seqs = await Promise.all(
    Array.from({ length: 10 }, () => recordOp(database.db, { repoId: 'op/4', opOid: oid() })),
  );
  expect(seqs.toSorted((a, b) => (a < b ? -1 : 1))).toEqual(
    Array.from({ length: 10 }, (_, n) => BigInt(n + 1)),
  );
});

test('who stands still in the middle does not keep the repo from others for long', async () => {
  await sql`alter table ${table('op_record')} alter column signer
    set default current_setting('idle_in_transaction_session_timeout')`.execute(database.db);
  const opOid = oid();
  await recordOp(database.db, { repoId: 'op/6', opOid });
  const row = await database.db
    .selectFrom('op_record')
    .select('signer')
    .where('push_id', '=', opOid)
    .executeTakeFirst();
  expect(row).toEqual({ signer: '10s' });
});

test.each(['', 'ABCDEF', 'g'.repeat(40), 'a'.repeat(41)])('%o is no OID', async (opOid) => {
  await expect(recordOp(database.db, { repoId: 'op/5', opOid })).rejects.toMatchObject({
    code: 'invalid_argument',
  });
});
