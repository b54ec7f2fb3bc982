import type { IncomingMessage, ServerResponse } from 'node:http';
import { isUnavailable } from '@sluice/db';
import { healthHandler, metricsHandler, type HttpHandler } from '@sluice/service-kit';
import { sql } from 'kysely';
import type { Pusher } from '../pusher.ts';
import { advertise } from './advertise.ts';
import { answerError } from './answer.ts';
import { createAuthorizer } from './authorize.ts';
import { HttpError, unavailable } from './http-error.ts';
import { ClientGone } from './read-body.ts';
import { parseRoute, type Route } from './route.ts';
import { serveReceivePack } from './serve-receive-pack.ts';
import { serveUploadPack } from './serve-upload-pack.ts';

/** Answers every request of the pusher. */
export function createHandler(pusher: Pusher): HttpHandler {
  const authorize = createAuthorizer(pusher.settings.token, pusher.settings.listen);
  const health = healthHandler({
    check: () => sql`select 1`.execute(pusher.db),
    onUnhealthy: (error) => pusher.log.warn({ event: 'unhealthy', error }),
  });
  const metrics = metricsHandler(pusher.metrics.registry);

  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const route = parseRoute(request.url ?? '');
    if (route.kind !== 'health') {
      const authorization = authorize(request);
      if (!authorization.isAllowed) {
        const { status, message, headers } = authorization;
        throw new HttpError(status, message, { headers });
      }
    }
    if (route.kind === 'refused') throw new HttpError(route.status, route.message);
    requireMethod(request, route);
    const protocol = readProtocol(request);
    if (route.kind === 'health') return await health(request, response);
    if (route.kind === 'metrics') return await metrics(request, response);
    const { service, address } = route;
    if (route.kind === 'advertise') return await advertise(pusher, { service, address, protocol }, response);
    if (service === 'git-upload-pack')
      return await serveUploadPack(pusher, { address, protocol }, request, response);
    await serveReceivePack(pusher, address, request, response);
  };

  return async (request, response) => {
    try {
      await handle(request, response);
    } catch (error) {
      if (error instanceof ClientGone) response.destroy();
      else answerError(request, response, toHttpError(pusher, request, error));
    }
  };
}

function requireMethod(request: IncomingMessage, route: Route): void {
  const methods = route.kind === 'serve' ? ['POST'] : ['GET', 'HEAD'];
  if (methods.includes(request.method ?? '')) return;
  throw new HttpError(405, `expected ${methods.join(' or ')}`, { headers: { allow: methods.join(', ') } });
}

/** What git says about its protocol version; it becomes an environment variable, so only what git would say passes. */
function readProtocol(request: IncomingMessage): string | undefined {
  const header = request.headers['git-protocol'];
  return typeof header === 'string' && /^[a-z0-9=:._-]{1,200}$/i.test(header) ? header : undefined;
}

function toHttpError(pusher: Pusher, request: IncomingMessage, error: unknown): HttpError {
  const known =
    error instanceof HttpError
      ? error
      : isUnavailable(error)
        ? unavailable('the database is not available', error)
        : null;
  if (known !== null && known.status < 500) return known;
  pusher.log.error({
    event: 'request_failed',
    method: request.method,
    path: request.url?.split('?')[0],
    error: known?.cause ?? error,
  });
  return known ?? new HttpError(500, 'internal error; the server log has the cause');
}
