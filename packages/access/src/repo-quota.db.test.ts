import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { beforeEach, expect, test, vi } from 'vitest';
import { exceededRepoQuota, repoQuotaFault, type RepoQuota } from './repo-quota.ts';

const database = useTestDatabase();

beforeEach(async () => {
  await database.db.deleteFrom('repo').execute();
});

async function makeRepos(madeBy: string | null, ...names: string[]): Promise<void> {
  await database.db
    .insertInto('repo')
    .values(names.map((repo_id) => ({ repo_id, made_by: madeBy })))
    .execute();
}

const ALICE: RepoQuota = { account: 'alice', accountMax: 2, serverMax: 4 };

test('an account makes as many as it may, whatever others make, until the server is full', async () => {
  const { db } = database;
  await makeRepos('alice', 'a/1');
  await makeRepos('bob', 'b/1');
  expect(await repoQuotaFault(db, ALICE)).toBeNull();
  await makeRepos('alice', 'a/2');
  expect(await repoQuotaFault(db, ALICE)).toBe(
    'expected at most 2 repositories made by alice, and there are as many; push to one of them, or ask for a token with a larger --max-repos',
  );
  expect(await repoQuotaFault(db, { ...ALICE, accountMax: 0 })).toContain('makes no repositories');
  expect(await repoQuotaFault(db, { ...ALICE, accountMax: null })).toBeNull();
  expect(await repoQuotaFault(db, { ...ALICE, account: 'bob' })).toBeNull();
  expect(await repoQuotaFault(db, { ...ALICE, account: null })).toBeNull();
  await makeRepos(null, 'set/up/by/hand');
  for (const quota of [{ account: 'bob' }, { account: null }, { accountMax: null }]) {
    expect(await repoQuotaFault(db, { ...ALICE, ...quota })).toBe(
      'expected at most 4 repositories on this server (SLUICE_REPOS), and there are as many; push to one of them, or ask for a larger limit',
    );
  }
});

test.each([
  ['an account', ALICE],
  ['the server', { account: 'carol', accountMax: null, serverMax: 2 }],
])('two transactions at once do not get beyond the limit of %s together', async (_, quota) => {
  const { db } = database;
  const make = async (repoId: string) => {
    const trx = await db.startTransaction().execute();
    await trx.insertInto('repo').values({ repo_id: repoId, made_by: quota.account }).execute();
    return trx;
  };
  await makeRepos(quota.account, 'first');
  const [one, two] = [await make('one'), await make('two')];
  expect(await exceededRepoQuota(one, quota)).toBeNull();
  const waiting = exceededRepoQuota(two, quota);
  const look = async (): Promise<void> => {
    const { rows } = await sql`select from pg_locks where locktype = 'advisory' and not granted
      and database = (select oid from pg_database where datname = current_database())`.execute(db);
    expect(rows).toHaveLength(1);
  };
  await vi.waitFor(look, { timeout: 20_000, interval: 20 });
  await one.commit().execute();
  expect(await waiting).toContain('expected at most 2 repositories');
  await two.rollback().execute();
  expect(await repoQuotaFault(db, quota)).not.toBeNull();
});

test('the count of an account is read from its own index, and stops at the limit', async () => {
  const { db } = database;
  await sql`insert into ${sql.table('sluice.repo')} (repo_id, made_by)
    select 'many/' || i, 'user' || i % 1000 from generate_series(1, 20000) i`.execute(db);
  await sql`analyze ${sql.table('sluice.repo')}`.execute(db);
  const query = db.selectFrom('repo').select('repo_id').where('made_by', '=', 'user7').limit(3);
  expect(JSON.stringify(await query.explain('text'))).toContain('repo_of_maker_idx');
});
