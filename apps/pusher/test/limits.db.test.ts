import { randomBytes } from 'node:crypto';
import { commitFiles, makeRepo } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { floodPush } from './flood.ts';
import { preamble } from './raw-push.ts';
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
  await work(['reset', '--quiet', '--hard', 'HEAD~1']);
  await commitFiles(work, { 'a.txt': 'small again' });
  await work(['push', '--quiet', `${url}/size.git`, 'main']);
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
