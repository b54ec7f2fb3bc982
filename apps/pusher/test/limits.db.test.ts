import { randomBytes } from 'node:crypto';
import { commitFiles, makeRepo } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { encodePkt, FLUSH } from '../src/wire/pkt-line.ts';
import { bombOid, bombPack, deltaBombPack } from './bomb-pack.ts';
import { floodPush } from './flood.ts';
import { packOf } from './pack-of.ts';
import { preamble, reportOf, send, sendPush } from './raw-push.ts';
import { usePusher } from './use-pusher.ts';

const pusher = usePusher();

test('a pack above the limit is refused while it is read, and stock git shows why', async () => {
  const { url } = await pusher.start({ SLUICE_PUSH_BYTES: '1000000' });
  const work = await makeRepo(`${pusher.folder}/work`);
  await commitFiles(work, { 'a.txt': 'small' });
  await work(['push', '--quiet', `${url}/size.git`, 'main']);
  // Far more than is still read once git has refused it.
  await commitFiles(work, { 'big.bin': randomBytes(16 * 1024 * 1024).toString('latin1') });
  const refused = await work.attempt(['push', `${url}/size.git`, 'main']);
  expect(refused.code).not.toBe(0);
  expect(refused.stderr).toContain(
    'remote: expected a pack of at most 1000000 bytes (SLUICE_PUSH_BYTES), got more; push fewer commits at once',
  );
  expect(pusher.events).toContainEqual(
    expect.objectContaining({ event: 'push_refused', reason: expect.stringContaining('SLUICE_PUSH_BYTES') }),
  );
  expect((await send(`${url}/_metrics`)).text).toContain('sluice_refusals_total{reason="too_large"} 1\n');
  await work(['reset', '--quiet', '--hard', 'HEAD~1']);
  await commitFiles(work, { 'a.txt': 'small again' });
  await work(['push', '--quiet', `${url}/size.git`, 'main']);
});

test('a push that would make its repository too large is refused, and deletes are not', async () => {
  const { url } = await pusher.start({ SLUICE_REPO_BYTES: '300000' });
  const work = await makeRepo(`${pusher.folder}/work`);
  const add = async (name: string): Promise<string> =>
    await commitFiles(work, { [name]: randomBytes(100_000).toString('latin1') });
  await add('one.bin');
  await work(['push', '--quiet', `${url}/full.git`, 'main', 'main:old']);
  await add('two.bin');
  await work(['push', '--quiet', `${url}/full.git`, 'main']);
  await add('three.bin');
  const refused = await work.attempt(['push', `${url}/full.git`, 'main']);
  expect(refused.code).not.toBe(0);
  expect(refused.stderr).toContain(
    'remote: expected a repository of at most 300000 bytes (SLUICE_REPO_BYTES), got more with this push',
  );
  await work(['push', '--quiet', `${url}/full.git`, ':old']);
  await work(['push', '--quiet', `${url}/other.git`, 'main~1:refs/heads/main']);
});

test('who sends on and on behind a pack that git has refused is cut off, and hears why', async () => {
  const { url } = await pusher.start();
  const opening = Buffer.concat([
    preamble([{ new: 'a'.repeat(40), name: 'refs/heads/main' }]),
    Buffer.from('no pack at all'),
  ]);
  const { answer, bytesSent } = await floodPush(`${url}/garbage.git`, { opening, bytes: 1024 ** 3 });
  expect(answer).toMatch(/^HTTP\/1.1 200 /);
  expect(answer).toContain('ng refs/heads/main unpacker error');
  expect(bytesSent).toBeLessThan(64 * 1024 ** 2);
});

const COMMIT =
  'tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n\n';

test.each([
  ['a commit', () => bombPack({ kind: 'commit', mebibytes: 3000, text: COMMIT })],
  ['a tree', () => bombPack({ kind: 'tree', mebibytes: 3000, text: '' })],
  ['a delta', () => deltaBombPack({ mebibytes: 3000 })],
])('%s that inflates to 3 GB is refused by a git that may take less memory', async (_, makePack) => {
  const { url } = await pusher.start({ SLUICE_GIT_MEMORY_BYTES: String(256 * 1024 ** 2) });
  const body = Buffer.concat([preamble([{ new: 'a'.repeat(40), name: 'refs/heads/main' }]), makePack()]);
  expect(body.length).toBeLessThan(4 * 1024 ** 2);
  const answer = await sendPush(`${url}/bomb.git`, body);
  expect(answer.text).toContain('fatal: Out of memory');
  expect(reportOf(answer)).toContain('ng refs/heads/main unpacker error');
});

test('blobs may inflate to more than git may take: they are stored, and sent, as they came', async () => {
  const { url } = await pusher.start({ SLUICE_GIT_MEMORY_BYTES: String(64 * 1024 ** 2) });
  const push = async (to: string, name: string, pack: Buffer): Promise<void> => {
    const body = Buffer.concat([preamble([{ new: to, name }]), pack]);
    expect(reportOf(await sendPush(`${url}/blobs.git`, body))).toContain(`ok ${name}`);
  };
  const bombs = ['one', 'two'].map((text) => ({ kind: 'blob', mebibytes: 80, text }) as const);
  for (const bomb of bombs) await push(bombOid(bomb), `refs/tags/${bomb.text}`, bombPack(bomb));
  const work = await makeRepo(`${pusher.folder}/work`);
  const files = bombs.map((bomb) => `100644 blob ${bombOid(bomb)}\t${bomb.text}\n`);
  const tree = await work(['mktree', '--missing'], { input: files.join('') });
  const commit = await work(['commit-tree', tree, '-m', 'two bombs']);
  await push(commit, 'refs/heads/main', await packOf(work, commit, tree));

  const fetched = await send(`${url}/blobs.git/git-upload-pack`, {
    body: Buffer.concat([encodePkt(`want ${commit} ofs-delta\n`), FLUSH, encodePkt('done\n')]),
    headers: { 'content-type': 'application/x-git-upload-pack-request' },
  });
  expect(fetched.text).toMatch(/^0008NAK\nPACK\0\0\0\x02\0\0\0\x04/);
  expect(pusher.events).not.toContainEqual(expect.objectContaining({ event: 'upload_pack_failed' }));
});
