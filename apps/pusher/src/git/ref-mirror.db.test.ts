import { createDatabase, table, type DB } from '@sluice/db';
import { commitPush, loadServerKey, lockRepo, type RefEdit, type ServerKey } from '@sluice/ref-store';
import { useTempFolder, useTestDatabase } from '@sluice/testkit';
import { sql, type Kysely } from 'kysely';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { RefMirror } from './ref-mirror.ts';

const database = useTestDatabase();
const folder = useTempFolder();
let db: Kysely<DB>;
let key: ServerKey;
let count = 0;
let repoId: string;
/** What was asked of the database, since it was last emptied. */
const statements: string[] = [];

beforeAll(() => {
  db = createDatabase({
    connectionString: database.url,
    applicationName: 'mirror',
    log: ({ query }) => void statements.push(query.sql),
  });
});
afterAll(() => db.destroy());
beforeEach(async () => {
  key ??= await loadServerKey(`${folder.path}/key`);
  count += 1;
  repoId = `mirror/r${count}`;
});

const oid = (digit: number): string => String(digit).repeat(40);
const set = (name: string, digit: number): RefEdit => ({ name, expect: 'any', to: oid(digit) });

async function push(...edits: RefEdit[]): Promise<void> {
  await database.db.transaction().execute(async (trx) => {
    const repo = await lockRepo(trx, { repoId, create: { objectFormat: 'sha1' } });
    await commitPush(trx, { repo: repo!, edits, signer: null, key });
  });
}

/** Lines, and how many statements it took. */
async function read(refs: RefMirror): Promise<[lines: string[], asked: number] | undefined> {
  statements.length = 0;
  const found = await refs.read(repoId);
  if (found === undefined) return undefined;
  return [found.lines.toString().split('\n').slice(0, -1), statements.length];
}

test('what pushes changed is added to what is known, in one statement, and results are left out', async () => {
  const refs = new RefMirror(db);
  expect(await read(refs)).toBeUndefined();
  await push(set('refs/heads/b', 1), set('refs/heads/d', 1), set('refs/meta/results/ci/1', 1));
  const before = [`${oid(1)} refs/heads/b`, `${oid(1)} refs/heads/d`];
  expect((await read(refs))?.[0]).toEqual(before);
  expect(await read(refs)).toEqual([before, 1]);
  await push(set('refs/heads/a', 2), set('refs/heads/d', 3), set('refs/meta/results/ci/2', 1));
  await push({ name: 'refs/heads/b', expect: 'any', to: null }, set('refs/heads/e', 4));
  const after = [`${oid(2)} refs/heads/a`, `${oid(3)} refs/heads/d`, `${oid(4)} refs/heads/e`];
  expect(await read(refs)).toEqual([after, 1]);
  expect((await read(new RefMirror(db)))?.[0]).toEqual(after);
});

test('a history that was lost and written anew is read as it is now', async () => {
  const refs = new RefMirror(db);
  await push(set('refs/heads/a', 1));
  await push(set('refs/heads/lost', 1));
  await read(refs);
  // As a failover to a standby without the second push leaves it, and another push in its place.
  const { db: anew } = database;
  await sql`delete from ${table('op_record')} where repo_id = ${repoId} and seq = 2`.execute(anew);
  await sql`delete from ${table('ref')} where repo_id = ${repoId} and name = 'refs/heads/lost'`.execute(anew);
  await sql`update ${table('repo')} set refs_version = 1, op_seq = 1,
    op_tip = (select push_id from ${table('op_record')} where repo_id = ${repoId}) where repo_id = ${repoId}`.execute(
    anew,
  );
  await push(set('refs/heads/other', 1));
  expect((await read(refs))?.[0]).toEqual([`${oid(1)} refs/heads/a`, `${oid(1)} refs/heads/other`]);
});

test('ten thousand refs that nobody changed are not looked at again', async () => {
  await push(set('refs/heads/a', 1));
  await sql`insert into ${table('ref')}
    select ${repoId}, 'refs/heads/many/' || i, ${oid(1)} from generate_series(1, 10000) as i`.execute(
    database.db,
  );
  const refs = new RefMirror(db);
  expect((await read(refs))?.[0]).toHaveLength(10_001);
  const again = await read(refs);
  expect([again?.[0].length, again?.[1]]).toEqual([10_001, 1]);
  expect(statements[0]).toContain('"op_record"');
  await push(set('refs/heads/many/x', 1));
  const changed = await read(refs);
  expect([changed?.[0].length, changed?.[1]]).toEqual([10_002, 1]);
});

test('many who ask at once for refs that are not known share one look at all of them', async () => {
  await push(set('refs/heads/a', 1));
  const refs = new RefMirror(db);
  statements.length = 0;
  const found = await Promise.all(Array.from({ length: 8 }, () => refs.read(repoId)));
  for (const one of found) expect(one?.lines.toString()).toBe(`${oid(1)} refs/heads/a\n`);
  expect(statements.filter((statement) => statement.startsWith('declare'))).toHaveLength(1);
});

test('many who ask at once after a push share one copy of what it changed', async () => {
  await push(set('refs/heads/a', 1));
  const refs = new RefMirror(db);
  await refs.read(repoId);
  await push(set('refs/heads/b', 2));
  const found = await Promise.all(Array.from({ length: 10 }, () => refs.read(repoId)));
  expect(found[0]?.lines.toString()).toBe(`${oid(1)} refs/heads/a\n${oid(2)} refs/heads/b\n`);
  expect(new Set(found.map((one) => one?.lines)).size).toBe(1);
});

test('what does not fit into memory is read again', async () => {
  const refs = new RefMirror(db, 3 * 1024);
  const first = repoId;
  for (repoId of [first, `${first}/second`, `${first}/third`]) {
    await push(set('refs/heads/a', 1));
    await read(refs);
    expect((await read(refs))?.[1]).toBe(1);
  }
  repoId = first;
  expect((await read(refs))?.[1]).toBeGreaterThan(1);
});

test('a repository whose refs take more than half of the memory is read again, and no other is forgotten for it', async () => {
  const refs = new RefMirror(db, 8 * 1024);
  const others = [1, 2].map((n) => `${repoId}/other${n}`);
  const large = repoId;
  for (repoId of others) {
    await push(set('refs/heads/a', 1));
    await read(refs);
  }
  repoId = large;
  await push(...Array.from({ length: 80 }, (_, n) => set(`refs/heads/branch-${n}`, 1)));
  for (let time = 0; time < 2; time += 1) {
    const found = await read(refs);
    expect([found?.[0].length, (found?.[1] ?? 0) > 1]).toEqual([80, true]);
  }
  for (repoId of others) expect((await read(refs))?.[1]).toBe(1);
});
