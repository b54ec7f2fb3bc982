import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createDatabase, table, type DB } from '@sluice/db';
import { commitPush, loadServerKey, lockRepo, type RefEdit, type ServerKey } from '@sluice/ref-store';
import { gitIn, useTempFolder, useTestDatabase } from '@sluice/testkit';
import { sql, type Kysely } from 'kysely';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { RefView } from './packed-refs.ts';
import { RefCache } from './ref-cache.ts';

const database = useTestDatabase();
const folder = useTempFolder();
let db: Kysely<DB>;
let key: ServerKey;
let cache: RefCache;
let count = 0;
let repoId: string;
/** What was asked of the database since it was last emptied. */
const statements: string[] = [];

const newCache = (): RefCache =>
  new RefCache({ db, folderOf: (id, format) => join(folder.path, `${id}.${format}.git`) });

beforeAll(() => {
  db = createDatabase({
    connectionString: database.url,
    applicationName: 'cache',
    log: ({ query }) => void statements.push(query.sql),
  });
});
afterAll(() => db.destroy());
beforeEach(async () => {
  key ??= await loadServerKey(`${folder.path}/key`);
  count += 1;
  repoId = `r${count}`;
  cache = newCache();
});

const oid = (digit: number): string => String(digit).repeat(40);
const set = (name: string, digit: number): RefEdit => ({ name, expect: 'any', to: oid(digit) });
const gone = (name: string): RefEdit => ({ name, expect: 'any', to: null });
const RESULT = 'refs/meta/results/ci/1';

async function push(...edits: RefEdit[]): Promise<void> {
  await database.db.transaction().execute(async (trx) => {
    const repo = await lockRepo(trx, { repoId, create: { objectFormat: 'sha1' } });
    await commitPush(trx, { repo: repo!, edits, signer: null, key });
  });
}

/** Adds refs of which the log knows nothing, so that reading all of them shows. */
async function addRefs(prefix: string, refs: number): Promise<void> {
  await sql`insert into ${table('ref')}
    select ${repoId}, ${prefix} || lpad(i::text, 6, '0'), ${oid(1)} from generate_series(1, ${refs}) as i`.execute(
    database.db,
  );
}

/** The refs on disk after a refresh, and how many statements that took. */
async function refresh(
  view?: RefView,
  by = cache,
): Promise<{ refs: string[]; asked: number; gitDir: string }> {
  statements.length = 0;
  const { gitDir } = (await by.refresh(repoId, view))!;
  const [, ...lines] = readFileSync(join(gitDir, 'packed-refs'), 'utf8').split('\n');
  return { refs: lines.slice(0, -1), asked: statements.length, gitDir };
}

test('a cache that is behind gets what the log says has changed, and reads no refs', async () => {
  await push(set('refs/heads/b', 1), set('refs/heads/c', 1), set(RESULT, 1));
  expect((await refresh()).refs).toEqual([`${oid(1)} refs/heads/b`, `${oid(1)} refs/heads/c`]);
  expect((await refresh('all')).refs).toHaveLength(3);
  expect((await refresh()).asked).toBe(1);
  await addRefs('refs/heads/x/', 3);
  await push(set('refs/heads/a', 2), gone('refs/heads/b'), set('refs/heads/b/c', 3), set(RESULT, 2));
  const expected = [`${oid(2)} refs/heads/a`, `${oid(3)} refs/heads/b/c`, `${oid(1)} refs/heads/c`];
  expect(await refresh()).toMatchObject({ refs: expected, asked: 2 });
  expect(await refresh('all')).toMatchObject({ refs: [...expected, `${oid(2)} ${RESULT}`], asked: 2 });
  // Where there may be very many, another process on the same machine goes on where this one was.
  await push(set('refs/heads/d', 4));
  const other = await refresh('all', newCache());
  expect(other).toMatchObject({
    refs: [...expected, `${oid(4)} refs/heads/d`, `${oid(2)} ${RESULT}`],
    asked: 2,
  });
  expect((await refresh(undefined, newCache())).refs).toHaveLength(7);
});

test('a default branch is known again whatever its name: there are other spaces than the one git refuses', async () => {
  const branch = `refs/heads/a\u{a0}b\u{3000}${`/${'\u{a0}'.repeat(124)}`.repeat(4)}`;
  await push(set(branch, 1));
  await refresh();
  expect(await refresh()).toMatchObject({ refs: [`${oid(1)} ${branch}`], asked: 1 });
  await refresh('all');
  await push(set('refs/heads/c', 1));
  const { refs, asked, gitDir } = await refresh('all', newCache());
  expect([refs, asked]).toEqual([[`${oid(1)} ${branch}`, `${oid(1)} refs/heads/c`], 2]);
  expect(readFileSync(join(gitDir, 'HEAD'), 'utf8')).toBe(`ref: ${branch}\n`);
});

test('git reads what is written, in both places', async () => {
  await push(set('refs/heads/trunk', 1), set(RESULT, 1));
  const { gitDir } = await refresh();
  const all = await refresh('all');
  const read = async (where: string): Promise<string> =>
    await gitIn(folder.path, { GIT_OBJECT_DIRECTORY: join(gitDir, 'objects') })([
      '-c',
      'safe.directory=*',
      '--git-dir',
      where,
      'for-each-ref',
      '--format=%(refname)',
    ]).catch((error: Error) => error.message);
  // There are no such objects, and git names the refs for it.
  expect(await read(gitDir)).toContain('refs/heads/trunk');
  expect(await read(gitDir)).not.toContain(RESULT);
  expect(await read(all.gitDir)).toContain(RESULT);
  for (const one of [gitDir, all.gitDir])
    expect(readFileSync(join(one, 'HEAD'), 'utf8')).toBe('ref: refs/heads/trunk\n');
});

test('a file that was not synced counts for nothing after the machine went down, nor does one for other readers', async () => {
  await push(set('refs/heads/a', 1));
  const { gitDir } = await refresh();
  const file = join(gitDir, 'packed-refs');
  const written = readFileSync(file, 'utf8');
  expect(written).toMatch(/ boot=\S+ \n/);
  for (const header of [
    written.replace(/ boot=\S+/, ' boot=an-earlier-one'),
    written.replace(/ view=\S+/, ' view=all'),
    written.replace(/ view=.*/, ' '),
    '',
  ]) {
    writeFileSync(file, `${header.split('\n')[0]}\n\0\0\0`);
    expect((await refresh()).refs).toEqual([`${oid(1)} refs/heads/a`]);
  }
});

test('an adopted repository has its results among its refs, and on disk', async () => {
  await push(set('refs/heads/a', 1), set(RESULT, 1));
  const { gitDir } = await refresh();
  mkdirSync(join(gitDir, 'sluice'));
  writeFileSync(join(gitDir, 'sluice/repo'), `${repoId}\n`);
  writeFileSync(join(gitDir, 'HEAD'), 'ref: refs/heads/theirs\n');
  for (const view of ['no-results', 'all'] as const) {
    expect(await refresh(view)).toMatchObject({ gitDir, refs: { length: 2 } });
  }
  expect(readFileSync(join(gitDir, 'packed-refs'), 'utf8')).toContain(' view=all boot=any \n');
  expect(readFileSync(join(gitDir, 'HEAD'), 'utf8')).toBe('ref: refs/heads/theirs\n');
});

test('a hundred thousand results are in nobody’s way, and one more of them costs no look at the others', async () => {
  await push(set('refs/heads/a', 1));
  await addRefs('refs/meta/results/ci/', 100_000);
  const { gitDir } = await refresh();
  const size = (): number => statSync(join(gitDir, 'packed-refs')).size;
  const before = size();
  expect((await refresh('all')).refs).toHaveLength(100_001);
  await push(set('refs/meta/results/ci/000000', 2));
  expect((await refresh()).asked).toBe(2);
  expect(size()).toBe(before);
  const all = await refresh('all');
  expect([all.refs.length, all.asked]).toEqual([100_002, 2]);
  for (const text of statements) expect(text).not.toMatch(/from "sluice"\."ref"/);
});
