import { once } from 'node:events';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { createGitServer, type ConnectionLimits } from './create-git-server.ts';

interface Running {
  server: Server;
  /** Targets of the requests that got through. */
  seen: string[];
  refused: () => number;
}

async function start(limits: Partial<ConnectionLimits> = {}): Promise<Running> {
  const seen: string[] = [];
  let refused = 0;
  const listener = (request: IncomingMessage, response: ServerResponse): void => {
    seen.push(request.url ?? '');
    request.resume();
    response.end('hello');
  };
  const onRefused = (): void => void (refused += 1);
  const server = createGitServer(listener, { perAddress: null, onRefused, ...limits });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => server.close().closeAllConnections());
  return { server, seen, refused: () => refused };
}

function open({ server }: Running, text = ''): { socket: Socket; ended: Promise<string> } {
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  let answer = '';
  socket.on('data', (part) => (answer += String(part)));
  socket.on('error', () => {});
  if (text !== '') socket.write(text);
  return { socket, ended: new Promise((resolve) => socket.once('close', () => resolve(answer))) };
}

test.each([
  ['nothing', '', 0],
  ['the beginning of a request', 'GET / HTTP/1.1\r\nHost: x\r\n', 0],
  ['a header without end, a byte at a time', 'GET / HTTP/1.1\r\nX-Slow: ', 5],
])('who sends %s is let go, and others are served', async (_, text, trickleMs) => {
  const running = await start({ headersMs: 200 });
  const slow = open(running, text);
  if (trickleMs > 0) {
    const trickle = setInterval(() => slow.socket.write('x'), trickleMs);
    onTestFinished(() => clearInterval(trickle));
  }
  const other = open(running, 'GET /other HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
  expect(await other.ended).toMatch(/^HTTP\/1\.1 200 /);
  expect(await slow.ended).toMatch(/^HTTP\/1\.1 408 /);
  expect(running.seen).toEqual(['/other']);
});

test('a connection that asks for nothing more is let go', async () => {
  const running = await start({ keepAliveMs: 50 });
  const idle = open(running, 'GET /once HTTP/1.1\r\nHost: x\r\n\r\n');
  expect(await idle.ended).toMatch(/^HTTP\/1\.1 200 /);
  expect(running.seen).toEqual(['/once']);
});

test('an address has so many connections, and a new one when one of them has ended', async () => {
  const running = await start({ perAddress: 2 });
  const held = [open(running), open(running)];
  await Promise.all(held.map(({ socket }) => once(socket, 'connect')));
  expect(await open(running, 'GET /third HTTP/1.1\r\nHost: x\r\n\r\n').ended).toBe('');
  expect(running.refused()).toBe(1);
  const left = new Promise((resolve) => running.server.once('connection', resolve));
  held[0]!.socket.destroy();
  await held[0]!.ended;
  const last = open(running, 'GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
  await left;
  expect(await last.ended).toMatch(/^HTTP\/1\.1 200 /);
  expect(running.seen).toEqual(['/last']);
});

const LENGTH = 'Content-Length: 5\r\n';
const CHUNKED = 'Transfer-Encoding: chunked\r\n';

test.each([
  ['a length and chunks', `${LENGTH}${CHUNKED}`],
  ['chunks and a length', `${CHUNKED}${LENGTH}`],
  ['two lengths', `${LENGTH}Content-Length: 6\r\n`],
  ['a list of lengths', 'Content-Length: 5, 6\r\n'],
  ['a length with a sign', 'Content-Length: +5\r\n'],
  ['a length that is no number', 'Content-Length: 0x5\r\n'],
  ['chunks that are not the last encoding', 'Transfer-Encoding: chunked, identity\r\n'],
  ['chunks twice', `Transfer-Encoding: chunked, chunked\r\n${LENGTH}`],
  ['a blank before the colon', 'Content-Length : 5\r\n'],
  ['a name with a NUL', 'Content-Le\0ngth: 5\r\n'],
  ['a bare line feed', 'X: y\nContent-Length: 5\r\n'],
])('a body with %s is refused, and what follows it is no request', async (_, headers) => {
  const running = await start();
  const hidden = 'GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n';
  const { ended } = open(running, `POST /front HTTP/1.1\r\nHost: x\r\n${headers}\r\n0\r\n\r\n${hidden}`);
  expect(await ended).toMatch(/HTTP\/1\.1 400 /);
  expect(running.seen).not.toContain('/hidden');
});
