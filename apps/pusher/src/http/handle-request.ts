import type { IncomingMessage, ServerResponse } from 'node:http';
import { healthHandler, metricsHandler, type HttpHandler } from '@sluice/service-kit';
import { sql } from 'kysely';
import { HttpError } from '../http-error.ts';
import type { Entry, Traffic } from './admission.ts';
import { advertise } from './advertise.ts';
import { answerError, requireFraming, requireOneHost } from './answer.ts';
import { createAuthorizer, denied } from './authorize.ts';
import { ANYONE, countedAccount, type Caller, type Denial } from './caller.ts';
import { clientAddress } from './client-address.ts';
import { knownFailure, noteFailure } from './known-failure.ts';
import type { Pusher } from './pusher.ts';
import { ClientGone } from './read-body.ts';
import { parseRoute, type RepoAddress, type Route, type Service } from './route.ts';
import { serveReceivePack } from './serve-receive-pack.ts';
import { serveUploadPack } from './serve-upload-pack.ts';
import { untilTaken } from './until-taken.ts';

/** Answers every request of the pusher. */
export function createHandler(pusher: Pusher): HttpHandler {
  const authorize = createAuthorizer(pusher.settings, pusher.db);
  const health = healthHandler({
    check: () => sql`select 1`.execute(pusher.db),
    onUnhealthy: (error) => pusher.log.warn({ event: 'unhealthy', error }),
  });
  const metrics = metricsHandler(pusher.metrics.registry);

  let isProxyKnown = pusher.settings.proxyHops > 0;
  const addressOf = (request: IncomingMessage): string => {
    const header = request.headers['x-forwarded-for'];
    if (header !== undefined && !isProxyKnown) {
      isProxyKnown = true;
      pusher.log.warn({ event: 'proxy_not_expected', setting: 'SLUICE_PROXY_HOPS' });
    }
    return clientAddress(request.socket.remoteAddress, [header].join(), pusher.settings.proxyHops);
  };
  const handle = async (
    { route, entry }: { route: Route; entry: Entry },
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> => {
    requireFraming(request);
    requireOneHost(request);
    if (route.kind !== 'health') demand(entry.count('address', addressOf(request)));
    const caller = route.kind === 'health' ? ANYONE : await authorize(request);
    const account = countedAccount(caller);
    if (account === null) entry.forgive();
    if (route.kind === 'refused') throw new HttpError(route.status, route.message);
    requireMethod(request, route);
    const protocol = readProtocol(request);
    if (route.kind === 'health') return await health(request, response);
    if (route.kind === 'metrics') {
      demand(caller.judgeServer());
      return await metrics(request, response);
    }
    const { service, address } = route;
    const denial = judgeAccess(caller, service, address) ?? count(entry, account, address);
    // A push gets a report, where git shows the reason for each ref; of any other answer to it git shows the number.
    if (route.kind === 'serve' && service === 'git-receive-pack')
      return await serveReceivePack(pusher, { address, caller, denial }, request, response);
    demand(denial);
    if (route.kind === 'advertise') return await advertise(pusher, { service, address, protocol }, response);
    await serveUploadPack(pusher, { address, account, protocol }, request, response);
  };

  return async (request, response) => {
    const route = parseRoute(request.url ?? '');
    using entry = pusher.admission.begin(trafficOf(route));
    try {
      await handle({ route, entry }, request, response);
    } catch (error) {
      if (error instanceof ClientGone) response.destroy();
      else {
        const failure = knownFailure(error);
        noteFailure(pusher, request, failure);
        answerError(request, response, failure);
      }
    }
    // What its client has not taken yet of an answer is in memory, so until then the request counts.
    await untilTaken(request, response, pusher.settings.uploadMs);
  };
}

/** Whether a caller may use a service of a repository at all; what it may push there, the repository's policy says. */
function judgeAccess(caller: Caller, service: Service, { repoId, claimNumber }: RepoAddress): Denial | null {
  if (claimNumber !== undefined) return caller.judge('worker', repoId);
  if (service === 'git-upload-pack') return caller.judge('read', repoId);
  // A policy may have something for workers; and who pushes sees what is there.
  const isWorker = caller.judge('worker', repoId) === null && caller.judge('read', repoId) === null;
  return isWorker ? null : caller.judge('write', repoId);
}

/** Only what somebody may do is counted: nobody uses up what belongs to others. */
function count(entry: Entry, account: string | null, { repoId }: RepoAddress): Denial | null {
  if (account === null) return null;
  return entry.count('account', account) ?? entry.count('repo', repoId);
}

function trafficOf(route: Route): Traffic {
  return 'service' in route && route.service === 'git-receive-pack' ? 'push' : 'fetch';
}

function demand(denial: Denial | null): void {
  if (denial !== null) throw denied(denial);
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
