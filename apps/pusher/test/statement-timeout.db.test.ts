import { commitFiles, makeRepo } from '@sluice/testkit';
import { expect, onTestFinished, test, vi } from 'vitest';
import { usePusher } from './use-pusher.ts';

const pusher = usePusher();
const BOUND = { timeout: 20_000, interval: 20 };

async function begin(env: Record<string, string> = {}) {
  const { db, url: databaseUrl } = pusher.database;
  const { url } = await pusher.start({
    DATABASE_URL: `${databaseUrl}?options=-c%20statement_timeout%3D300ms`,
    ...env,
  });
  const repoId = `timeout/r${Object.keys(env).length}`;
  await db.insertInto('repo').values({ repo_id: repoId }).execute();
  const work = await makeRepo(`${pusher.folder}/work`);
  await commitFiles(work, { 'a.txt': 'one' });
  const lock = await db.startTransaction().execute();
  onTestFinished(async () => {
    if (!lock.isRolledBack) await lock.rollback().execute();
  });
  await lock.selectFrom('repo').select('repo_id').where('repo_id', '=', repoId).forUpdate().execute();
  const pushes = async (): Promise<number> =>
    (await db.selectFrom('op_record').select('seq').where('repo_id', '=', repoId).execute()).length;
  return { remote: `${url}/${repoId}.git`, work, lock, pushes };
}

test('a push that the statement timeout stops while another holds the repository is tried again, and counts once', async () => {
  const { remote, work, lock, pushes } = await begin();
  const pushing = work.attempt(['push', remote, 'main']);
  const retries = (): number => pusher.events.filter(({ event }) => event === 'commit_retried').length;
  await vi.waitFor(() => expect(retries()).toBeGreaterThan(1), BOUND);
  await lock.rollback().execute();
  expect(await pushing).toMatchObject({ code: 0 });
  expect(await pushes()).toBe(1);
});

test('one that waits in vain is refused whole, and told to try again', async () => {
  const { remote, work, lock, pushes } = await begin({ SLUICE_DATABASE_WAIT_MS: '500' });
  const { code, stderr } = await work.attempt(['push', remote, 'main']);
  expect([code, stderr]).toEqual([1, expect.stringContaining('nothing was changed, try again in a moment')]);
  await lock.rollback().execute();
  expect(await pushes()).toBe(0);
  await work(['push', '--quiet', remote, 'main']);
  expect(await pushes()).toBe(1);
});
