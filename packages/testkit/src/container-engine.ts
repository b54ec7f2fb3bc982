import { existsSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';

const PING_TIMEOUT_MS = 2_000;

/**
 * Where a container engine answers: DOCKER_HOST, else the usual sockets of Docker and Podman. Asked by a ping with a
 * short bound, since a client library would try for a minute, and a socket file says nothing by itself.
 */
export async function findContainerEngine(env: NodeJS.ProcessEnv): Promise<string | undefined> {
  for (const host of candidates(env)) if (await answers(host)) return host;
  return undefined;
}

function candidates(env: NodeJS.ProcessEnv): string[] {
  if (env['DOCKER_HOST'] !== undefined && env['DOCKER_HOST'] !== '') return [env['DOCKER_HOST']];
  const runtime = env['XDG_RUNTIME_DIR'];
  return [
    '/var/run/docker.sock',
    ...(runtime === undefined ? [] : [join(runtime, 'docker.sock'), join(runtime, 'podman/podman.sock')]),
    ...(env['HOME'] === undefined ? [] : [join(env['HOME'], '.docker/run/docker.sock')]),
    '/run/podman/podman.sock',
  ]
    .filter((path) => existsSync(path))
    .map((path) => `unix://${path}`);
}

async function answers(host: string): Promise<boolean> {
  const url = new URL(host);
  const where =
    url.protocol === 'unix:' ? { socketPath: url.pathname } : { host: url.hostname, port: url.port };
  return await new Promise((resolve) => {
    const ping = request({ ...where, path: '/_ping', timeout: PING_TIMEOUT_MS }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    ping.on('timeout', () => ping.destroy(new Error('no answer')));
    ping.on('error', () => resolve(false));
    ping.end();
  });
}
