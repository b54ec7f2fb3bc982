import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { readServerKeys, retireServerKey, verifyLog } from '@sluice/ref-store';
import { commitFiles, makeRepo } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { usePusher } from './use-pusher.ts';

const pusher = usePusher();

test('a key is changed: what the old one signed verifies, and no pusher starts with it again', async () => {
  const { db } = pusher.database;
  const work = await makeRepo(`${pusher.folder}/work`);
  const push = async (url: string, file: string): Promise<void> => {
    await commitFiles(work, { [file]: file });
    await work(['push', '--quiet', `${url}/key/api.git`, 'main']);
  };
  const first = await pusher.start();
  await push(first.url, 'one');
  await first.stop({ hurry: true });
  const [old] = await readServerKeys(db);
  const path = join(pusher.folder, 'data', 'server-key.pem');
  await rename(path, `${path}.old`);
  const second = await pusher.start();
  expect(await readServerKeys(db)).toHaveLength(2);
  expect(await retireServerKey(db, old!.fingerprint)).toBe(true);
  await push(second.url, 'two');
  expect(await verifyLog(db, { repoId: 'key/api', trustedKeys: await readServerKeys(db) })).toEqual({
    records: 2,
    problems: [],
  });

  await rename(`${path}.old`, path);
  await expect(pusher.start()).rejects.toMatchObject({
    code: 'server_key_unusable',
    message: expect.stringContaining(old!.fingerprint),
  });
});
