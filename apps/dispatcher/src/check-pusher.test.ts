import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { checkPusher } from './check-pusher.ts';

const GOOD = `Basic ${Buffer.from('dispatcher:right').toString('base64')}`;

const WEAK = `Basic ${Buffer.from('dispatcher:weak').toString('base64')}`;

async function startPusher(): Promise<{ url: string; close: () => Promise<unknown> }> {
  const server = createServer((request, response) => {
    const { authorization } = request.headers;
    response.writeHead(authorization === GOOD ? 200 : authorization === WEAK ? 403 : 401).end('text');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const close = async (): Promise<unknown> => {
    if (!server.listening) return;
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  };
  onTestFinished(async () => void (await close()));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close };
}

it.each([
  ['wrong', 'got one that it refuses'],
  ['weak', 'got one that is not enough'],
  [undefined, 'got none'],
])('refuses the token %s that the pusher refuses', async (token, message) => {
  const { url } = await startPusher();
  await expect(checkPusher(url, token)).rejects.toThrow(
    `SLUICE_TOKEN: expected the token of the pusher at ${url}, ${message};`,
  );
});

it('lets the right token pass, and a pusher that does not answer', async () => {
  const { url, close } = await startPusher();
  expect(await checkPusher(url, 'right')).toBeUndefined();
  await close();
  expect(await checkPusher(url, 'right')).toMatchObject({ code: 'ECONNREFUSED' });
});
