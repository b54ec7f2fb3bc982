import { table } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { CompiledQuery, sql } from 'kysely';
import { beforeAll, expect, test } from 'vitest';
import { newKey, oid, push } from '../test/push-fixture.ts';
import { refPages, type RefRow } from './read-refs.ts';
import { readRefsSince, refsSinceQuery, type ReadRefsSinceOptions } from './read-refs-since.ts';
import { readRepo, type RepoState } from './read-repo.ts';
import type { RefEdit } from './ref-edit.ts';
import type { ServerKey } from './server-key.ts';

const database = useTestDatabase();
const repoId = 'since/repo';
const results = 'refs/meta/results/';
const members = 'refs/meta/members/';
let key: ServerKey;
/** The state after each push. */
const states: RepoState[] = [];

const set = (name: string, digit: number): RefEdit => ({ name, expect: 'any', to: oid(digit) });
const remove = (name: string): RefEdit => ({ name, expect: 'any', to: null });

beforeAll(async () => {
  key = await newKey();
  const pushes: RefEdit[][] = [
    [set('refs/heads/a', 1), set('refs/heads/b', 1)],
    [set('refs/heads/a', 2), set(`${results}ci/1`, 3)],
    [remove('refs/heads/b'), set('refs/heads/b/c', 4), set('refs/meta/results0', 5)],
    [set('refs/heads/a', 6), set('refs/meta/members/ada', 7)],
  ];
  for (const edits of pushes) {
    await push(database.db, { repoId, key, edits });
    states.push((await readRepo(database.db, repoId))!);
  }
});

async function since(
  state: ReadRefsSinceOptions['since'],
  other: Partial<ReadRefsSinceOptions> = {},
): Promise<unknown> {
  const found = await readRefsSince(database.db, {
    repoId,
    since: state,
    except: results,
    sought: members,
    ...other,
  });
  if (found?.changes === undefined || found.changes === null) return found?.changes;
  return Object.fromEntries(found.changes.map(({ name, oid: to }) => [name, to]));
}

test('what changed since a state of the log is the last change of each ref, in one statement', async () => {
  expect(await since(states[3]!)).toEqual({});
  expect(await since(states[2]!)).toEqual({ 'refs/heads/a': oid(6), 'refs/meta/members/ada': oid(7) });
  expect(await since(states[0]!)).toEqual({
    'refs/heads/a': oid(6),
    'refs/heads/b': null,
    'refs/heads/b/c': oid(4),
    'refs/meta/results0': oid(5),
    'refs/meta/members/ada': oid(7),
  });
  expect(await since(states[0]!, { except: null })).toMatchObject({
    'refs/heads/a': oid(6),
    [`${results}ci/1`]: oid(3),
  });
  expect(await since(states[0]!, { except: 'refs/heads/' })).toEqual({
    [`${results}ci/1`]: oid(3),
    'refs/meta/results0': oid(5),
    'refs/meta/members/ada': oid(7),
  });
});

test('the state comes with it, and whether a ref with a prefix exists', async () => {
  const read = (sought: string) =>
    readRefsSince(database.db, { repoId, since: null, except: results, sought });
  expect(await read(members)).toEqual({ state: states[3], isFound: true, changes: null });
  expect(await read('refs/meta/member/')).toMatchObject({ isFound: false });
  expect(await read('refs/meta/members/adam')).toMatchObject({ isFound: false });
  expect(
    await readRefsSince(database.db, { repoId: 'no/such', since: null, except: results, sought: members }),
  ).toBeUndefined();
});

test('a state that is not one of this history tells nothing', async () => {
  expect(await since(null)).toBeNull();
  expect(await since({ ...states[1]!, opTip: states[2]!.opTip })).toBeNull();
  expect(await since({ ...states[1]!, refsVersion: 1n })).toBeNull();
  expect(await since({ ...states[1]!, opTip: null })).toBeNull();
  expect(await since({ refsVersion: 9n, opTip: oid(9) })).toBeNull();
  await push(database.db, { repoId: 'since/other', key, edits: [set('refs/heads/a', 1)] });
  const other = (await readRepo(database.db, 'since/other'))!;
  expect(await since(other)).toBeNull();
});

test('nor does one that lies too far back, by pushes or by changes', async () => {
  const other = { repoId: 'since/far' };
  await push(database.db, { ...other, key, edits: [set('refs/heads/a', 1)] });
  const first = (await readRepo(database.db, other.repoId))!;
  const many = Array.from({ length: 5001 }, (_, index) => set(`refs/heads/n${index}`, 1));
  await push(database.db, { ...other, key, edits: many });
  expect(await since(first, other)).toBeNull();
  expect(await since(first, { ...other, except: 'refs/heads/n1' })).not.toBeNull();
  const before = async (pushes: bigint): Promise<unknown> => {
    await sql`update ${table('op_record')} set seq = ${2n - pushes} where push_id = ${first.opTip}`.execute(
      database.db,
    );
    return await since({ ...first, refsVersion: 2n - pushes }, { ...other, except: 'refs/heads/' });
  };
  expect(await before(1000n)).toEqual({});
  expect(await before(1001n)).toBeNull();
});

async function pagesOf(id: string, except: string | null): Promise<RefRow[][]> {
  const pages: RefRow[][] = [];
  await database.db.transaction().execute(async (trx) => {
    for await (const page of refPages(trx, id, { except })) pages.push(page);
  });
  return pages;
}

test('all refs but those with a prefix come in byte order', async () => {
  expect((await pagesOf(repoId, results)).flat()).toEqual([
    { name: 'refs/heads/a', oid: oid(6) },
    { name: 'refs/heads/b/c', oid: oid(4) },
    { name: 'refs/meta/members/ada', oid: oid(7) },
    { name: 'refs/meta/results0', oid: oid(5) },
  ]);
  expect(await pagesOf('no/such', results)).toEqual([]);
});

test('many refs come in pages, each where the one before it ended, whatever is left out', async () => {
  const many = `${repoId}-many`;
  await database.db.insertInto('repo').values({ repo_id: many }).execute();
  await sql`insert into ${table('ref')}
    select ${many}, prefix || lpad(i::text, 6, '0'), ${oid(1)}
      from generate_series(1, 15000) as i, unnest(array['refs/heads/', ${results}, 'refs/tags/']) as prefix`.execute(
    database.db,
  );
  for (const [except, total] of [
    [results, 30_000],
    [null, 45_000],
  ] as const) {
    const pages = await pagesOf(many, except);
    const names = pages.flat().map(({ name }) => name);
    expect(pages.length).toBeGreaterThan(1);
    expect(names).toHaveLength(total);
    expect(names).toEqual([...new Set(names)].toSorted((a, b) => (a < b ? -1 : 1)));
  }
});

test.each(['never', 'when the tables were full'])(
  'neither reads what is left out, nor the log before the state, statistics taken %s',
  async (when) => {
    const { db } = database;
    if (when === 'never') await fill();
    else await sql`analyze ${table('ref')}, ${table('op_record')}, ${table('reflog')}`.execute(db);
    const query = refsSinceQuery({ repoId, since: states[2]!, except: results, sought: members });
    for (const plan of await plansOf(query.compile(db))) {
      expect(plan).not.toMatch(/Seq Scan on (?:ref|op_record|reflog)/);
      for (const [, rows] of plan.matchAll(/rows=([\d.]+) loops/g)) expect(Number(rows)).toBeLessThan(10);
    }
  },
);

/** As it is planned for these values, and for any. */
async function plansOf({ sql: text, parameters }: CompiledQuery): Promise<string[]> {
  const values = parameters
    .map((value) => (value === null ? 'null' : `'${value as string | bigint}'`))
    .join(', ');
  return await database.db.connection().execute(async (connection) => {
    const explain = async (statement: CompiledQuery): Promise<string> => {
      const { rows } = await connection.executeQuery<{ 'QUERY PLAN': string }>(statement);
      return rows.map((row) => row['QUERY PLAN']).join('\n');
    };
    const explained = 'explain (analyze, costs off, timing off)';
    const custom = await explain(CompiledQuery.raw(`${explained} ${text}`, [...parameters]));
    await sql.raw(`prepare any_since as ${text}`).execute(connection);
    await sql`set plan_cache_mode = force_generic_plan`.execute(connection);
    const generic = await explain(CompiledQuery.raw(`${explained} execute any_since (${values})`));
    await sql`deallocate any_since`.execute(connection);
    await sql`reset plan_cache_mode`.execute(connection);
    return [custom, generic];
  });
}

/** Thousands of results of the same repository, and thousands of pushes of others. */
async function fill(): Promise<void> {
  const { db } = database;
  await sql`insert into ${table('ref')}
    select ${repoId}, ${results} || 'ci/many' || i, ${oid(1)} from generate_series(1, 20000) as i`.execute(
    db,
  );
  await sql`insert into ${table('repo')} (repo_id) values ('since/busy')`.execute(db);
  await sql`insert into ${table('op_record')} (push_id, repo_id, seq)
    select lpad(i::text, 40, '0'), 'since/busy', i from generate_series(1, 20000) as i`.execute(db);
  await sql`insert into ${table('reflog')} (repo_id, push_id, name, new_oid)
    select repo_id, push_id, 'refs/heads/a', ${oid(1)} from ${table('op_record')} where repo_id = 'since/busy'`.execute(
    db,
  );
}
