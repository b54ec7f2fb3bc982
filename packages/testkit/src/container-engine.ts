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
  const given = env['DOCKER_HOST'];
  if (given !== undefined && given !== '') {
    if (URL.canParse(given)) return [given];
    throw new Error(
      `DOCKER_HOST: expected a URL such as unix:///var/run/docker.sock, got ${JSON.stringify(given)}. Unset it to use the usual sockets.`,
    );
  }
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
  return await new Promise((resolve) => {
    const ping = request({ ...engineAddress(host), path: '/_ping', timeout: PING_TIMEOUT_MS }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    ping.on('timeout', () => ping.destroy(new Error('no answer')));
    ping.on('error', () => resolve(false));
    ping.end();
  });
}

/** For `request` of node:http. */
export function engineAddress(host: string): { socketPath: string } | { host: string; port: string } {
  const url = new URL(host);
  return url.protocol === 'unix:' ? { socketPath: url.pathname } : { host: url.hostname, port: url.port };
}
