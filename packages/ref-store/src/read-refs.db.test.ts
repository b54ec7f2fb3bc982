import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { beforeAll, expect, test } from 'vitest';
import { newKey, oid, push } from '../test/push-fixture.ts';
import { iterateRefs, readRefs, type RefRow } from './read-refs.ts';
import { readRepo } from './read-repo.ts';

const database = useTestDatabase();

const NAMES = [
  'refs/heads/Feature/a',
  'refs/heads/a%b',
  'refs/heads/a%bc',
  'refs/heads/a_b',
  'refs/heads/aXb',
  'refs/heads/cafe\u0301',
  'refs/heads/caf\u00e9',
  'refs/heads/feature/a',
  'refs/heads/feature/b',
  'refs/heads/feature0',
  'refs/heads/x\ud7ff',
  'refs/heads/x\ue000',
  'refs/heads/x\u{10ffff}y',
  'refs/heads/y',
  'refs/tags/v1',
];

beforeAll(async () => {
  const key = await newKey();
  for (const repoId of ['read/refs', 'read/other']) {
    await push(database.db, {
      repoId,
      key,
      edits: NAMES.map((name) => ({ name, expect: 'absent', to: oid(1) })),
    });
  }
});

const read = async (prefix: string) =>
  (await readRefs(database.db, 'read/refs', { prefix })).map((ref) => ref.name);

test('all refs come in byte order', async () => {
  const sorted = NAMES.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  expect(await readRefs(database.db, 'read/refs')).toEqual(sorted.map((name) => ({ name, oid: oid(1) })));
  expect(await readRefs(database.db, 'no/such')).toEqual([]);
});

test.each([
  '',
  'r',
  'refs/heads/',
  'refs/heads/a_',
  'refs/heads/a%',
  'refs/heads/A',
  'refs/heads/f',
  'refs/heads/F',
  'refs/heads/feature/',
  'refs/heads/feature',
  'refs/heads/caf\u00e9',
  'refs/heads/cafe',
  'refs/heads/x\ud7ff',
  'refs/heads/x\u{10ffff}',
  '\u{10ffff}',
  '%',
  'refs/heads/\\',
  "'",
])('the prefix %j means itself', async (prefix) => {
  const wanted = NAMES.filter((name) => name.startsWith(prefix));
  expect((await read(prefix)).sort()).toEqual(wanted.sort());
});

test.each(['refs/\0', 'refs/\ud800'])('the prefix %j is refused', async (prefix) => {
  await expect(read(prefix)).rejects.toMatchObject({ code: 'invalid_argument' });
});

test('a prefix is read through the index', async () => {
  const plan = await database.db.transaction().execute(async (trx) => {
    await sql`set local enable_seqscan = off`.execute(trx);
    const query = trx
      .selectFrom('ref')
      .select('name')
      .where('repo_id', '=', 'read/refs')
      .where('name', '>=', 'refs/heads/')
      .where('name', '<', 'refs/heads0')
      .orderBy('name');
    return (await query.explain()).map((row) => Object.values(row as object).join('')).join('\n');
  });
  expect(plan).toMatch(/Index (Only )?Scan|Bitmap Index Scan/);
  expect(plan).toContain("(name >= 'refs/heads/'::text) AND (name < 'refs/heads0'::text)");
});

test('more refs than one page are iterated, each once, and a push in between is not seen', async () => {
  const { db } = database;
  const key = await newKey();
  const repoId = 'read/many';
  const names = Array.from({ length: 12_000 }, (_, index) => `refs/tags/v${String(index).padStart(5, '0')}`);
  await push(db, { repoId, key, edits: names.map((name) => ({ name, expect: 'absent', to: oid(1) })) });
  const seen: RefRow[] = [];
  for await (const ref of iterateRefs(db, repoId, { prefix: 'refs/tags/' })) {
    if (seen.length === 0)
      await push(db, { repoId, key, edits: [{ name: names.at(-1)!, expect: 'any', to: null }] });
    seen.push(ref);
  }
  expect(seen.map((ref) => ref.name)).toEqual(names);
  expect(await readRefs(db, repoId)).toHaveLength(names.length - 1);
  expect(await readRepo(db, repoId)).toMatchObject({ refsVersion: 2n });
});

test('iteration that ends early, or inside a transaction, leaves no transaction open', async () => {
  const { db } = database;
  for await (const ref of iterateRefs(db, 'read/refs')) {
    expect(ref.oid).toBe(oid(1));
    break;
  }
  await db.transaction().execute(async (trx) => {
    let count = 0;
    for await (const ref of iterateRefs(trx, 'read/refs')) count += ref.name === '' ? 0 : 1;
    expect(count).toBe(NAMES.length);
  });
  const open = await sql<{ count: bigint }>`
    select count(*) as count from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'`.execute(
    db,
  );
  expect(open.rows).toEqual([{ count: 0n }]);
});

test('a repository that does not exist is undefined', async () => {
  expect(await readRepo(database.db, 'no/such')).toBeUndefined();
});
