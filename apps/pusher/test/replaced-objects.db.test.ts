import { createToken } from '@sluice/access';
import { commitFiles, defineEffect, makeRepo } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { usePusher } from './use-pusher.ts';

const pusher = usePusher();

test('a ref below refs/replace/ puts nothing in the place of a definition', async () => {
  const env = { SLUICE_ACCOUNTS: 'required' };
  const at = async (url: string, scope: 'admin' | 'write'): Promise<string> => {
    const made = await createToken(pusher.database.db, {
      name: scope,
      repoPattern: 'replaced/*',
      scopes: [scope],
      expiresInDays: 1,
    });
    return `${url.replace('//', `//x:${made.token}@`)}/replaced/api.git`;
  };
  const work = await makeRepo(`${pusher.folder}/work`);
  await commitFiles(work, { 'a.txt': 'one' });
  const definition = await defineEffect(work, 'ci', 'on: [refs/heads/*]\nrun: make\n');
  const first = await pusher.start(env);
  await work(['push', '--quiet', await at(first.url, 'admin'), 'refs/meta/effects/ci']);
  const other = await defineEffect(work, 'ci', 'on: [refs/heads/*]\nrun: make mischief\n');
  const writer = await at(first.url, 'write');
  await work(['push', '--quiet', writer, `${other}:refs/replace/${definition}`]);
  await first.stop({ hurry: true });

  // A pusher that has not read the definition yet.
  const second = await pusher.start(env);
  await work(['push', '--quiet', await at(second.url, 'write'), 'main']);
  const effect = await pusher.database.db
    .selectFrom('effect_queue')
    .select('payload')
    .where('repo_id', '=', 'replaced/api')
    .executeTakeFirstOrThrow();
  expect(JSON.parse(effect.payload)).toMatchObject({ command: { run: 'make' } });
});
