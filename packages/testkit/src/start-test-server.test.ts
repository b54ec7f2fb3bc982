import { once } from 'node:events';
import { createServer } from 'node:http';
import { createServer as createSocketServer } from 'node:net';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { findContainerEngine } from './container-engine.ts';
import { startTestServer } from './start-test-server.ts';
import { useTempFolder } from './temp-folder.ts';

const folder = useTempFolder();

test('an engine is one that answers a ping', async () => {
  const path = join(folder.path, 'engine.sock');
  const engine = createServer((request, response) =>
    response.writeHead(request.url === '/_ping' ? 200 : 404).end(),
  );
  await once(engine.listen(path), 'listening');
  expect(await findContainerEngine({ DOCKER_HOST: `unix://${path}` })).toBe(`unix://${path}`);
  engine.closeAllConnections();
  engine.close();
  await once(engine, 'close');
  expect(await findContainerEngine({ DOCKER_HOST: `unix://${path}` })).toBeUndefined();
});

test('a socket that says nothing is no engine', async () => {
  const path = join(folder.path, 'silent.sock');
  const silent = createSocketServer((socket) => socket.on('error', () => {}));
  await once(silent.listen(path), 'listening');
  expect(await findContainerEngine({ DOCKER_HOST: `unix://${path}` })).toBeUndefined();
  silent.close();
});

test.each(['15', '18'])('without an engine, version %s comes with the dependencies', async (version) => {
  const server = await startTestServer({ DOCKER_HOST: 'unix:///nowhere.sock', TEST_PG_VERSION: version });
  await server.stop();
  expect(server.choice).toMatch(
    new RegExp(`^PostgreSQL ${version}\\.\\d+ of the dependencies \\(no container engine`),
  );
});

test('an engine that cannot start a container is named, and the dependencies serve', async () => {
  const path = join(folder.path, 'engine.sock');
  const engine = createServer((request, response) =>
    response
      .writeHead(request.url === '/_ping' ? 200 : 500, { 'content-type': 'application/json' })
      .end('{}'),
  );
  await once(engine.listen(path), 'listening');
  vi.stubEnv('DOCKER_HOST', `unix://${path}`);
  const server = await startTestServer({ DOCKER_HOST: `unix://${path}` });
  await server.stop();
  vi.unstubAllEnvs();
  engine.closeAllConnections();
  engine.close();
  expect(server.choice).toContain(
    `of the dependencies (the container engine at unix://${path} could not start one: `,
  );
});

test('an unknown version is refused by name', async () => {
  const refused = startTestServer({ DOCKER_HOST: 'unix:///nowhere.sock', TEST_PG_VERSION: '12' });
  await expect(refused).rejects.toThrow('TEST_PG_VERSION: expected 15 or 18, got "12"');
});

test('a DOCKER_HOST that is no URL is refused by name', async () => {
  const refused = startTestServer({ DOCKER_HOST: '/run/engine.sock' });
  await expect(refused).rejects.toThrow(
    'DOCKER_HOST: expected a URL such as unix:///var/run/docker.sock, got "/run/engine.sock"',
  );
});
