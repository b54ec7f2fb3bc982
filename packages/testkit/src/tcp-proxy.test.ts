import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTcpProxy } from './tcp-proxy.ts';

const echo = createServer((socket) => socket.on('error', () => {}).pipe(socket));
let target: { host: string; port: number };
beforeAll(async () => {
  await once(echo.listen(0, '127.0.0.1'), 'listening');
  target = { host: '127.0.0.1', port: (echo.address() as AddressInfo).port };
});
afterAll(() => void echo.close());

async function open(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  return socket;
}

async function say(socket: Socket, word: string): Promise<string> {
  socket.write(word);
  const [heard] = (await once(socket, 'data')) as [Buffer];
  return heard.toString();
}

test('passes, holds back while frozen, and passes the rest when thawed', async () => {
  await using proxy = await startTcpProxy(target);
  const socket = await open(proxy.port);
  expect(await say(socket, 'one')).toBe('one');
  proxy.freeze();
  const held = once(socket, 'data') as Promise<[Buffer]>;
  socket.write('two');
  let isHeard = false;
  void held.then(() => (isHeard = true));
  const other = await startTcpProxy(target);
  expect(await say(await open(other.port), 'meanwhile')).toBe('meanwhile');
  await other[Symbol.asyncDispose]();
  expect(isHeard).toBe(false);
  proxy.thaw();
  expect((await held)[0].toString()).toBe('two');
  socket.destroy();
});

test('cut ends open connections and lets new ones pass', async () => {
  await using proxy = await startTcpProxy(target);
  const socket = await open(proxy.port);
  await say(socket, 'one');
  const lost = once(socket, 'error');
  proxy.cut();
  expect((await lost)[0]).toMatchObject({ code: 'ECONNRESET' });
  const next = await open(proxy.port);
  expect(await say(next, 'two')).toBe('two');
  next.destroy();
});

test('refuse turns new connections away until accept', async () => {
  await using proxy = await startTcpProxy(target);
  await proxy.refuse();
  await expect(open(proxy.port)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  await proxy.accept();
  const socket = await open(proxy.port);
  expect(await say(socket, 'back')).toBe('back');
  socket.destroy();
});

test('rewrites a URL', async () => {
  await using proxy = await startTcpProxy(target);
  expect(proxy.through('postgres://u:p@db:5432/name')).toBe(`postgres://u:p@127.0.0.1:${proxy.port}/name`);
});
