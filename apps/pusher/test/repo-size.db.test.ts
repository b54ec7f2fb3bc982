import { randomBytes } from 'node:crypto';
import { globSync, statSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { commitFiles, makeRepo } from '@sluice/testkit';
import { beforeEach, expect, test, vi } from 'vitest';
import { packOf } from './pack-of.ts';
import { preamble, send } from './raw-push.ts';
import { usePusher } from './use-pusher.ts';

const pusher = usePusher();

beforeEach(async () => {
  await pusher.database.db.deleteFrom('repo').execute();
});

const LIMIT = 300_000;

const stored = (): number =>
  globSync(`${pusher.folder}/data/repos/*/*/objects/pack/*.pack`)
    .map((path) => statSync(path).size)
    .reduce((sum, size) => sum + size, 0);

test.each([
  ['one server', 1],
  ['two servers over one folder', 2],
])('pushes that come at once to %s do not exceed the size of a repository together', async (_, servers) => {
  const env = { SLUICE_REPO_BYTES: String(LIMIT), SLUICE_GIT_PROCESSES: '48' };
  const urls = [];
  for (let n = 0; n < servers; n += 1) urls.push((await pusher.start(env)).url);
  const work = await makeRepo(`${pusher.folder}/work`);
  await commitFiles(work, { 'a.txt': 'one' });
  await work(['push', '--quiet', `${urls[0]}/full.git`, 'main']);
  const base = await work(['rev-parse', 'main']);
  const pushes: Push[] = [];
  for (let n = 0; n < 6; n += 1) {
    await work(['reset', '--quiet', '--hard', base]);
    const commit = await commitFiles(work, { 'big.bin': randomBytes(90_000).toString('latin1') });
    const bytes = Buffer.concat([
      preamble([{ new: commit, name: `refs/heads/b${n}` }]),
      await packOf(work, commit),
    ]);
    pushes.push(beginPush(urls[n % servers]!, bytes));
  }
  // Each was let in by what the repository held before.
  const quarantine = `${pusher.folder}/data/repos/*/*/objects/tmp_objdir-incoming-*`;
  await vi.waitFor(() => expect(globSync(quarantine)).toHaveLength(6), { timeout: 20_000, interval: 20 });
  for (const { finish } of pushes) finish();
  await vi.waitFor(() => expect(pushes.map(({ answer }) => answer()).filter(isAnswered)).toHaveLength(6), {
    timeout: 20_000,
    interval: 20,
  });
  const answers = pushes.map(({ answer }) => answer());
  for (const { socket } of pushes) socket.destroy();
  const refused = answers.filter((text) => !text.includes('ok refs/heads/b'));
  expect(refused.length).toBeGreaterThan(0);
  expect(refused.length).toBeLessThan(6);
  for (const text of refused) {
    expect(text).toContain(`expected a repository of at most ${LIMIT} bytes (SLUICE_REPO_BYTES), got more`);
    expect(text).toContain('ng refs/heads/b');
  }
  expect(stored()).toBeLessThanOrEqual(LIMIT);
  expect((await send(`${urls[0]}/full.git/info/refs?service=git-upload-pack`)).text).not.toContain('error');
});

test('what git adds to a pack that leaves out what the repository has counts as well', async () => {
  const { url } = await pusher.start({ SLUICE_REPO_BYTES: String(LIMIT) });
  const work = await makeRepo(`${pusher.folder}/work`);
  const big = randomBytes(200_000).toString('latin1');
  await commitFiles(work, { 'big.bin': big });
  await work(['push', '--quiet', `${url}/thin.git`, 'main']);
  await commitFiles(work, { 'big.bin': `${big}more` });
  const refused = await work.attempt(['push', `${url}/thin.git`, 'main']);
  expect(refused.stderr).toContain(`remote: expected a repository of at most ${LIMIT} bytes`);
  expect(refused.stderr).toContain('! [remote rejected] main -> main (pre-receive hook declined)');
  expect(stored()).toBeLessThanOrEqual(LIMIT);
  await work(['push', '--quiet', `${url}/thin.git`, 'main~1:refs/heads/other']);
  await work(['push', '--quiet', `${url}/thin.git`, ':other']);
});

interface Push {
  socket: Socket;
  answer: () => string;
  finish: () => void;
}

function isAnswered(text: string): boolean {
  return /(?:ok|ng) refs\/heads\/b/.test(text);
}

/** Sends all of a push but its last bytes. */
function beginPush(url: string, bytes: Buffer): Push {
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  let answer = '';
  socket.on('error', () => {});
  socket.on('data', (chunk: Buffer) => (answer += chunk.toString('latin1')));
  socket.write(
    `POST /full.git/git-receive-pack HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-git-receive-pack-request\r\nContent-Length: ${bytes.length}\r\n\r\n`,
  );
  socket.write(bytes.subarray(0, -30));
  return { socket, answer: () => answer, finish: () => socket.write(bytes.subarray(-30)) };
}
