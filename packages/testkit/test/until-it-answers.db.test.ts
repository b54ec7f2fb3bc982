import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { useTestDatabase } from '../src/test-database.ts';
import { untilItAnswers } from '../src/until-it-answers.ts';

const database = useTestDatabase();

/** How the first boot of the image looks from outside. */
test('a server that resets, then is silent and goes away, and then is there is waited for', async () => {
  const { hostname, port } = new URL(database.url);
  let connections = 0;
  const front = createServer((client) => {
    connections += 1;
    client.on('error', () => {});
    if (connections <= 2) return void client.resetAndDestroy();
    if (connections === 3) return void client.once('data', () => client.end());
    const server = connect({ host: hostname, port: Number(port || 5432) });
    server.on('error', () => client.destroy());
    client.pipe(server).pipe(client);
  }).listen(0, '127.0.0.1');
  await once(front, 'listening');
  const url = new URL(database.url);
  url.host = `127.0.0.1:${(front.address() as AddressInfo).port}`;
  expect(await untilItAnswers(url.href, 30_000)).toMatch(/^\d+\.\d+/);
  expect(connections).toBe(4);
  front.close();
});

test('one that never answers is given up with the reason', async () => {
  await expect(untilItAnswers('postgres://127.0.0.1:1/none', 200)).rejects.toThrow('ECONNREFUSED');
});
