import { table } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { beforeAll, expect, test } from 'vitest';
import { oid } from '../test/push-fixture.ts';
import { namedRefsQuery, readNamedRefs } from './read-named-refs.ts';
import type { RefEdit } from './ref-edit.ts';

const database = useTestDatabase();
const repoId = 'named/refs';

beforeAll(async () => {
  const { db } = database;
  await sql`insert into ${table('repo')} (repo_id) values ('named/refs'), ('named/other')`.execute(db);
  await sql`insert into ${table('ref')} select repo, 'refs/heads/d' || i / 100 || '/r' || i, ${oid(1)}
    from unnest(array['named/refs', 'named/other']) as repo, generate_series(1, 20000) as i`.execute(db);
});

const edits: RefEdit[] = [
  { name: 'refs/heads/d1', expect: 'any', to: oid(2) },
  { name: 'refs/heads/d2/r200', expect: 'any', to: null },
  { name: 'refs/heads/d2/r201/x', expect: 'any', to: oid(2) },
  { name: 'refs/heads/new', expect: 'any', to: oid(2) },
];

test('one statement finds what is named, above and below, of its own repository', async () => {
  const refs = await database.db.transaction().execute((trx) => readNamedRefs(trx, repoId, edits));
  expect(refs.current).toEqual(
    new Map([
      ['refs/heads/d2/r200', oid(1)],
      ['refs/heads/d2/r201', oid(1)],
    ]),
  );
  expect(refs.below).toEqual(new Map([['refs/heads/d1', 'refs/heads/d1/r100']]));
});

test.each(['never', 'when the table was full'])('it is read by index, statistics taken %s', async (when) => {
  if (when !== 'never') await sql`analyze ${table('ref')}`.execute(database.db);
  const { rows } = await sql<{ 'QUERY PLAN': string }>`explain ${namedRefsQuery(repoId, edits)}`.execute(
    database.db,
  );
  const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
  expect(plan).not.toMatch(/Seq Scan on ref/);
  expect(plan).toMatch(/Index.* using ref_pkey on ref/);
});
