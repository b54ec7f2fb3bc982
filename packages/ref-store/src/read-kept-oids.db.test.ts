import { table } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { newKey, oid, push } from '../test/push-fixture.ts';
import { readKeptOids } from './read-kept-oids.ts';

const database = useTestDatabase();

async function makeHistory(repoId: string): Promise<string> {
  const key = await newKey();
  const main = 'refs/heads/main';
  await push(database.db, { repoId, key, edits: [{ name: main, expect: 'absent', to: oid(1) }] });
  const second = await push(database.db, {
    repoId,
    key,
    edits: [{ name: main, expect: oid(1), to: oid(2) }],
  });
  await push(database.db, { repoId, key, edits: [{ name: main, expect: oid(2), to: oid(3) }] });
  if (second.status !== 'committed') throw new Error('expected a push');
  await sql`update ${table('reflog')} set created_at = now() - interval '10 days'
             where repo_id = ${repoId} and new_oid <> ${oid(3)}`.execute(database.db);
  return second.pushId;
}

const read = async (repoId: string, keepDays: number | null, oidsMax = 100) => {
  const kept = await readKeptOids(database.db, { repoId, keepDays, oidsMax });
  return kept === null || kept === undefined
    ? kept
    : { named: kept.named.toSorted(), former: kept.former.toSorted() };
};

test('what a ref ever named is kept for ever, or for some days after it was replaced', async () => {
  await makeHistory('kept/past');
  expect(await read('kept/past', null)).toEqual({ named: [oid(3)], former: [oid(1), oid(2)] });
  expect(await read('kept/past', 5)).toEqual({ named: [oid(3)], former: [oid(2)] });
  expect(await readKeptOids(database.db, { repoId: 'kept/past', keepDays: 5, oidsMax: 100 })).toMatchObject({
    refsVersion: 3n,
  });
  expect(await read('kept/none', null)).toBeUndefined();
});

test('what a ref of a lasting kind ever named is kept for ever', async () => {
  await makeHistory('kept/lasting');
  const kept = async (lasting: string[]) =>
    (await readKeptOids(database.db, { repoId: 'kept/lasting', keepDays: 5, lasting, oidsMax: 100 }))?.former
      .length;
  expect(await kept(['refs/none/', 'refs/heads/m'])).toBe(2);
  expect(await kept(['refs/none/', 'heads/'])).toBe(1);
});

test('a value that is still a ref is kept however old', async () => {
  await makeHistory('kept/ref');
  await sql`update ${table('reflog')} set created_at = now() - interval '400 days'
             where repo_id = 'kept/ref'`.execute(database.db);
  expect(await read('kept/ref', 5)).toEqual({ named: [oid(3)], former: [] });
});

test('what a push named is kept while an effect of it is not finished', async () => {
  const pushId = await makeHistory('kept/effect');
  expect(await read('kept/effect', 5)).toEqual({ named: [oid(3)], former: [oid(2)] });
  const waiting = { repo_id: 'kept/effect', payload: '{}', push_id: pushId };
  await database.db.insertInto('effect_queue').values(waiting).execute();
  expect(await read('kept/effect', 5)).toEqual({ named: [oid(3)], former: [oid(1), oid(2)] });
});

test('with more than the most the answer is null', async () => {
  await makeHistory('kept/many');
  expect(await read('kept/many', null, 3)).not.toBeNull();
  expect(await read('kept/many', null, 2)).toBeNull();
});
