import { table, type DB } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql, type Kysely } from 'kysely';
import { beforeAll, expect, test } from 'vitest';
import { governingRefsQuery, readGoverningRefs } from './read-governing-refs.ts';

const database = useTestDatabase();
const oid = 'a'.repeat(40);
const read = (repoId: string, membersMax = 10) => readGoverningRefs(database.db, { repoId, membersMax });

/** Repositories with thousands of refs and reflog entries, what governs them, and names that only look like it. */
beforeAll(async () => {
  await database.db.connection().execute(fill);
});

async function fill(db: Kysely<DB>): Promise<void> {
  const push = sql`md5(repo_id) || repeat('0', 8)`;
  await sql`insert into ${table('repo')} (repo_id) values ('none'), ('some'), ('lost'), ('open')`.execute(db);
  await sql`insert into ${table('op_record')} (push_id, repo_id, seq)
    select ${push}, repo_id, 1 from ${table('repo')}`.execute(db);
  await sql`create temporary table moved as select repo_id, name from ${table('repo')},
    (select 'refs/heads/' || i from generate_series(1, 5000) i
     union all values ('refs/meta/memberships'), ('refs/meta/members'), ('refs/meta/config/x')) as names (name)
    union all values ('some', 'refs/meta/config'), ('some', 'refs/meta/members/b'), ('some', 'refs/meta/members/a'),
      ('lost', 'refs/meta/members/a'), ('open', 'refs/meta/config')`.execute(db);
  await sql`insert into ${table('reflog')} (repo_id, push_id, name, new_oid)
    select repo_id, ${push}, name, ${oid} from moved`.execute(db);
  await sql`insert into ${table('ref')} (repo_id, name, oid)
    select repo_id, name, ${oid} from moved where (repo_id, name) <> ('lost', 'refs/meta/members/a')`.execute(
    db,
  );
}

test('what governs a repository is found, and whether it ever had members', async () => {
  const config = { name: 'refs/meta/config', oid };
  const members = ['refs/meta/members/a', 'refs/meta/members/b'].map((name) => ({ name, oid }));
  expect(await read('none')).toEqual({ config: null, members: [], hadMembers: false });
  expect(await read('open')).toEqual({ config, members: [], hadMembers: false });
  expect(await read('some')).toEqual({ config, members, hadMembers: true });
  expect(await read('some', 0)).toEqual({ config, members: members.slice(0, 1), hadMembers: true });
  expect(await read('lost')).toEqual({ config: null, members: [], hadMembers: true });
});

test.each(['never', 'when the tables were full'])(
  'it is read by index, statistics taken %s',
  async (when) => {
    const { db } = database;
    if (when !== 'never') await sql`analyze ${table('ref')}, ${table('reflog')}`.execute(db);
    const plan = await governingRefsQuery(db, { repoId: 'some', membersMax: 10_000 }).explain('text');
    const text = JSON.stringify(plan);
    expect(text).not.toContain('Seq Scan');
    expect(text.match(/Index[^"]* using (ref_pkey|reflog_of_ref_idx) on/g)).toHaveLength(3);
  },
);
