import type { IncomingMessage, ServerResponse } from 'node:http';
import { collectDefaultMetrics, Registry } from 'prom-client';

/** Answers one HTTP request; its promise never rejects. */
export type HttpHandler = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

export interface HealthOptions {
  /** A real question to what the service depends on, such as a query; rejects if the service cannot work. */
  check: () => Promise<unknown>;
  /** How long the answer may take; by default 2,000 ms. */
  timeoutMs?: number;
  /** Sees why a check failed; callers over HTTP do not, since the reason may name hosts and users. */
  onUnhealthy?: (error: unknown) => void;
}

/** `GET /_health`: 200 when the check passes in time, otherwise 503. Requests at the same time share one check. */
export function healthHandler({
  check,
  timeoutMs = 2_000,
  onUnhealthy = () => {},
}: HealthOptions): HttpHandler {
  let running: Promise<boolean> | undefined;
  const isHealthy = async (): Promise<boolean> => {
    const timeout = Promise.withResolvers<never>();
    const timer = setTimeout(() => timeout.reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
    try {
      await Promise.race([check(), timeout.promise]);
      return true;
    } catch (error) {
      onUnhealthy(error);
      return false;
    } finally {
      clearTimeout(timer);
      running = undefined;
    }
  };
  return async (_request, response) => {
    const healthy = await (running ??= isHealthy());
    answer(
      response,
      healthy ? 200 : 503,
      'application/json',
      JSON.stringify({ status: healthy ? 'ok' : 'unavailable' }),
    );
  };
}

/** `GET /_metrics`: everything in the registry, as Prometheus reads it. */
export function metricsHandler(registry: Registry): HttpHandler {
  return async (_request, response) => {
    try {
      answer(response, 200, registry.contentType, await registry.metrics());
    } catch {
      answer(response, 500, 'text/plain', 'the metrics could not be collected');
    }
  };
}

/** A registry with the process's own metrics; one per service, so that two in one process do not mix. */
export function createRegistry(): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  return registry;
}

function answer(response: ServerResponse, status: number, type: string, body: string): void {
  response.writeHead(status, {
    'content-type': type,
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  });
  response.end(body);
}
