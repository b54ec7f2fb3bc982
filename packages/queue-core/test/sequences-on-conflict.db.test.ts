import { createDatabase, SCHEMA } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { enqueueEffect } from '../src/enqueue-effect.ts';
import { enqueueEffects } from '../src/enqueue-effects.ts';
import { opRecords, recordOp } from '../src/record-op.ts';

const database = useTestDatabase();
const TIMES = 100;
const MAX = 2n ** 63n - 1n;

/** Where each sequence of the schema stands, by name. */
async function places(): Promise<Record<string, bigint>> {
  const { rows } = await sql<{ name: string; last: bigint | null }>`
    select sequencename as name, last_value as last from pg_sequences where schemaname = ${SCHEMA}::text`.execute(
    database.db,
  );
  return Object.fromEntries(rows.map(({ name, last }) => [name, last ?? 0n]));
}

test('what is asked for again and again uses up no numbers that could run out', async () => {
  // Sequences hand out their values in blocks: one session, so that each number that is used is seen.
  await using db = createDatabase({
    connectionString: database.url,
    applicationName: 'test',
    connectionsMax: 1,
  });
  const first = await enqueueEffect(db, { repoId: 'a', payload: '', dedupKey: 'k' });
  const opOid = 'a'.repeat(40);
  await recordOp(db, { repoId: 'a', opOid });
  const before = await places();
  for (let time = 0; time < TIMES; time += 1) {
    expect(await enqueueEffect(db, { repoId: 'a', payload: '', dedupKey: 'k' })).toBe(first);
    expect(await recordOp(db, { repoId: 'a', opOid })).toBe(1n);
  }
  const twins = Array.from({ length: TIMES }, () => ({ repoId: 'a', payload: '', dedupKey: 'k' }));
  for (const twin of await enqueueEffects(db, twins)) expect(twin).toMatchObject({ effectId: first });
  for (const [name, place] of Object.entries(await places())) {
    const used = place - before[name]!;
    // One for each duplicate at most: a million of them a second would take 292,000 years to use them up.
    expect(used, name).toBeLessThanOrEqual(BigInt(2 * TIMES));
  }
  const { rows } = await sql`
    select sequencename from pg_sequences
     where schemaname = ${SCHEMA}::text and (max_value <> ${MAX}::bigint or cycle)`.execute(db);
  expect(rows).toEqual([]);
  expect(await recordOp(db, { repoId: 'a', opOid: 'b'.repeat(40) })).toBe(2n);
  expect((await opRecords(db, { repoId: 'a' })).map(({ seq }) => seq)).toEqual([2n, 1n]);
});
