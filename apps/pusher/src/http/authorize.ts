import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { findToken } from '@sluice/access';
import type { DB } from '@sluice/db';
import { isLoopback, SettingsError } from '@sluice/service-kit';
import type { Kysely } from 'kysely';
import { HttpError } from '../http-error.ts';
import type { Settings } from '../settings.ts';
import { ANYONE, tokenCaller, type Caller, type Denial } from './caller.ts';

/** Finds out who sent a request, by its headers alone; throws {@link HttpError} for who may not come in at all. */
export type Authorize = (request: IncomingMessage) => Promise<Caller>;

/**
 * With a token or accounts: HTTP Basic, any user name, the token as password. Without both, whoever reaches the port
 * may push, so the server must be on loopback, and the Host header must be a loopback name too: a web page whose own
 * name was pointed at 127.0.0.1 sends its own.
 */
export function createAuthorizer(
  { token, accounts, listen }: Pick<Settings, 'token' | 'accounts' | 'listen'>,
  db: Kysely<DB>,
): Authorize {
  if (token !== undefined || accounts === 'required') {
    return async (request) => {
      const password = readPassword(request.headers.authorization);
      if (password !== null && token !== undefined && isSameText(password, token)) return ANYONE;
      const found = password === null || accounts === 'off' ? undefined : await findToken(db, password);
      if (found !== undefined) return tokenCaller(found, password!);
      const expected = accounts === 'off' ? 'SLUICE_TOKEN' : 'an access token';
      throw denied({
        status: 401,
        reason: `expected HTTP Basic credentials: any user name, and ${expected} as the password`,
      });
    };
  }
  assertGuarded({ token, accounts, listen });
  return async (request) => checkHost(request.headers.host);
}

/** Fails where anybody on a network could come in. */
export function assertGuarded({
  token,
  accounts,
  listen,
}: Pick<Settings, 'token' | 'accounts' | 'listen'>): void {
  if (token !== undefined || accounts === 'required' || isLoopback(listen.host)) return;
  throw new SettingsError([
    {
      name: 'SLUICE_LISTEN',
      message: `expected a loopback address such as 127.0.0.1 while SLUICE_TOKEN is unset and SLUICE_ACCOUNTS is off, got ${listen.host}: everybody who reaches it could push and so run commands. Set one of the two to listen there`,
    },
  ]);
}

/** A denial as an answer. */
export function denied({ status, reason, retryAfterSeconds }: Denial): HttpError {
  const headers: Record<string, string> = {};
  // Without this header git never asks for a password.
  if (status === 401) headers['www-authenticate'] = 'Basic realm="sluice", charset="UTF-8"';
  if (retryAfterSeconds !== undefined) headers['retry-after'] = String(retryAfterSeconds);
  return new HttpError(status, reason, { headers });
}

function readPassword(header: string | undefined): string | null {
  const encoded = /^Basic ([A-Za-z0-9+/=]+)$/i.exec(header ?? '')?.[1];
  const credentials = encoded === undefined ? '' : Buffer.from(encoded, 'base64').toString('utf8');
  const colon = credentials.indexOf(':');
  return colon === -1 ? null : credentials.slice(colon + 1);
}

/** Compares hashes, so that neither the length nor the first difference shows in the time it takes. */
function isSameText(a: string, b: string): boolean {
  return timingSafeEqual(sha256(a), sha256(b));
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

function checkHost(host: string | undefined): Caller {
  const name = /^(?:\[([0-9a-f:]+)\]|([^:[\]]+))(?::\d{1,5})?$/i.exec(host ?? '');
  if (isLoopback((name?.[1] ?? name?.[2] ?? '').toLowerCase())) return ANYONE;
  throw denied({
    status: 403,
    reason:
      'expected a Host header that names this machine, such as 127.0.0.1 or localhost. Set SLUICE_TOKEN to use another name',
  });
}
