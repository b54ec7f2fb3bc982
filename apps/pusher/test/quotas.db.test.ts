import { createToken, type CreatedToken } from '@sluice/access';
import { table } from '@sluice/db';
import { commitFiles, makeRepo, type Git } from '@sluice/testkit';
import { sql } from 'kysely';
import { beforeEach, expect, test, vi } from 'vitest';
import { closeCommitGate } from './commit-gate.ts';
import { packOf } from './pack-of.ts';
import { preamble, reportOf, send, sendPush } from './raw-push.ts';
import { usePusher } from './use-pusher.ts';

const pusher = usePusher();

let url: string;
let work: Git;
let commit: string;

beforeEach(async () => {
  await pusher.database.db.deleteFrom('repo').execute();
  work = await makeRepo(`${pusher.folder}/work`);
  commit = await commitFiles(work, { 'a.txt': pusher.folder });
});

async function startWithAccounts(): Promise<void> {
  ({ url } = await pusher.start({ SLUICE_ACCOUNTS: 'required' }));
}

async function makeToken(name: string, reposMax: number | null): Promise<CreatedToken> {
  const rights = { repoPattern: '*', scopes: ['write'], expiresInDays: 1 } as const;
  return await createToken(pusher.database.db, { name, reposMax, ...rights });
}

function remote(repoId: string, { token }: { token: string }): string {
  return `${url.replace('//', `//x:${token}@`)}/${repoId}.git`;
}

async function makers(): Promise<Record<string, string | null>> {
  const rows = await pusher.database.db.selectFrom('repo').select(['repo_id', 'made_by']).execute();
  return Object.fromEntries(rows.map(({ repo_id, made_by }) => [repo_id, made_by]));
}

test('an account makes as many repositories as its token says, with all of its tokens together', async () => {
  await startWithAccounts();
  const [alice, again] = [await makeToken('alice', 2), await makeToken('alice', 2)];
  await work(['push', '--quiet', remote('a/1', alice), 'main']);
  await work(['push', '--quiet', remote('a/2', again), 'main']);
  for (const token of [alice, again]) {
    const refused = await work.attempt(['push', remote('a/3', token), 'main']);
    expect(refused.code).not.toBe(0);
    expect(refused.stderr).toContain(
      '! [remote rejected] main -> main (expected at most 2 repositories made by alice, and there are as many',
    );
  }
  await work(['push', '--quiet', remote('a/1', again), 'main:more']);
  await work(['push', '--quiet', remote('a/3', await makeToken('alice', 3)), 'main']);
  await work(['push', '--quiet', remote('b/1', await makeToken('bob', 1)), 'main']);
  const none = await work.attempt(['push', remote('c/1', await makeToken('carol', 0)), 'main']);
  expect(none.stderr).toContain('this token of carol makes no repositories');
  expect(await makers()).toEqual({ 'a/1': 'alice', 'a/2': 'alice', 'a/3': 'alice', 'b/1': 'bob' });
});

test('a server that may have no more repositories makes none for anybody', async () => {
  ({ url } = await pusher.start({ SLUICE_REPOS: '1' }));
  await work(['push', '--quiet', `${url}/one.git`, 'main']);
  const refused = await work.attempt(['push', `${url}/two.git`, 'main']);
  expect(refused.stderr).toContain('expected at most 1 repository on this server (SLUICE_REPOS)');
  expect((await send(`${url}/_metrics`)).text).toContain('sluice_refusals_total{reason="quota"} 1\n');
  await work(['push', '--quiet', `${url}/one.git`, 'main:more']);
  expect(await makers()).toEqual({ one: null });
});

test('of two first pushes that commit at once, one is within the limit and the other leaves nothing', async () => {
  await startWithAccounts();
  const alice = await makeToken('alice', 1);
  await using gate = await closeCommitGate(pusher.database.db);
  const first = work.attempt(['push', remote('a/1', alice), 'main']);
  await gate.reached();
  const second = work.attempt(['push', remote('a/2', alice), 'main']);
  // The gate waits for a lock, the one in it has another, and the second push waits for that.
  const look = async (): Promise<void> => {
    const { rows } = await sql`select from pg_locks where locktype = 'advisory' and not granted
      and database = (select oid from pg_database where datname = current_database())`.execute(
      pusher.database.db,
    );
    expect(rows).toHaveLength(2);
  };
  await vi.waitFor(look, { timeout: 20_000, interval: 20 });
  await gate.open();
  expect((await first).code).toBe(0);
  expect((await second).stderr).toContain(
    '! [remote rejected] main -> main (expected at most 1 repository made by alice',
  );
  expect(await makers()).toEqual({ 'a/1': 'alice' });
});

test('a first push that is refused makes no repository', async () => {
  await startWithAccounts();
  const alice = await makeToken('alice', 1);
  const body = Buffer.concat([
    preamble([{ old: 'a'.repeat(40), new: commit, name: 'refs/heads/main' }]),
    await packOf(work, commit),
  ]);
  const headers = { authorization: `Basic ${Buffer.from(`x:${alice.token}`).toString('base64')}` };
  const answer = await sendPush(`${url}/a/1.git`, body, headers);
  expect(reportOf(answer)).toContain('ng refs/heads/main stale');
  expect(await makers()).toEqual({});
  await work(['push', '--quiet', remote('a/1', alice), 'main']);
});

test('a push that would make more refs than a repository may have is refused, and deletes are not', async () => {
  const { url } = await pusher.start({ SLUICE_REFS_PER_REPO: '3' });
  const remote = `${url}/refs.git`;
  await work(['push', '--quiet', remote, 'main', 'main:a', 'main:b']);
  const reason =
    'expected at most 3 refs in a repository (SLUICE_REFS_PER_REPO), got more with this push; delete some, or ask for a larger limit';
  const refused = await work.attempt(['push', '--porcelain', remote, 'main:c', ':a', 'main:d', '+main~0:b']);
  expect(refused.stdout).toContain(`\t[remote rejected] (${reason})`);
  expect(refused.stdout.match(/SLUICE_REFS_PER_REPO/g)).toHaveLength(2);
  await work(['push', '--quiet', remote, 'main:c', ':a']);
  // As many as there were before the limit.
  await sql`insert into ${table('ref')} (repo_id, name, oid) select repo_id, 'refs/tags/' || i, oid
    from ${table('ref')}, generate_series(1, 5) as i where repo_id = 'refs' and name = 'refs/heads/b'`.execute(
    pusher.database.db,
  );
  await work(['push', '--quiet', remote, ':b', ':c']);
  expect((await work.attempt(['push', remote, 'main:e'])).stderr).toContain(`main -> e (${reason})`);
});
