import { createServer } from 'node:http';
import type { Registry } from 'prom-client';
import { healthHandler, metricsHandler, type HealthOptions } from './health.ts';
import { listenOn } from './listen-on.ts';
import type { HostPort } from './setting-parsers.ts';

/** A running health and metrics server. */
export interface HealthServer extends AsyncDisposable {
  /** `http://host:port`, with the port that was really taken. */
  url: string;
}

export interface HealthServerOptions extends HealthOptions {
  listen: HostPort;
  /** The setting that says where. */
  setting: string;
  registry: Registry;
}

/** Serves `/_health` and `/_metrics` for a service that has no HTTP server of its own. */
export async function startHealthServer(options: HealthServerOptions): Promise<HealthServer> {
  const routes = new Map([
    ['/_health', healthHandler(options)],
    ['/_metrics', metricsHandler(options.registry)],
  ]);
  const server = createServer({ requestTimeout: 10_000, headersTimeout: 5_000 }, (request, response) => {
    const route = routes.get(request.url?.split('?')[0] ?? '');
    if (route === undefined) response.writeHead(404).end();
    else if (request.method !== 'GET' && request.method !== 'HEAD')
      response.writeHead(405, { allow: 'GET, HEAD' }).end();
    else void route(request, response);
  });
  const url = await listenOn(server, options.listen, options.setting);
  return {
    url,
    [Symbol.asyncDispose]: async () => {
      const closed = Promise.withResolvers<void>();
      server.close(() => closed.resolve());
      server.closeAllConnections();
      await closed.promise;
    },
  };
}
