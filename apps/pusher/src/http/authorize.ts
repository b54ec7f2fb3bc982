import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { isLoopback, SettingsError, type HostPort } from '@sluice/service-kit';

export type Authorization =
  | { isAllowed: true }
  | { isAllowed: false; status: 401 | 403; message: string; headers: Record<string, string> };

/** Judges a request by its headers alone. */
export type Authorize = (request: IncomingMessage) => Authorization;

/**
 * With a token: HTTP Basic, any user name, the token as password. Without one, whoever reaches the port may push, so
 * the server must be on loopback, and the Host header must be a loopback name too: a web page whose own name was
 * pointed at 127.0.0.1 sends its own.
 */
export function createAuthorizer(token: string | undefined, listen: HostPort): Authorize {
  if (token !== undefined) return (request) => checkBasic(request.headers.authorization, token);
  if (!isLoopback(listen.host)) {
    throw new SettingsError([
      {
        name: 'SLUICE_LISTEN',
        message: `expected a loopback address such as 127.0.0.1 while SLUICE_TOKEN is unset, got ${listen.host}: everybody who reaches it could push and so run commands. Set SLUICE_TOKEN to listen there`,
      },
    ]);
  }
  return (request) => checkHost(request.headers.host);
}

function checkBasic(header: string | undefined, token: string): Authorization {
  const encoded = /^Basic ([A-Za-z0-9+/=]+)$/i.exec(header ?? '')?.[1];
  const credentials = encoded === undefined ? '' : Buffer.from(encoded, 'base64').toString('utf8');
  const password = credentials.slice(credentials.indexOf(':') + 1);
  if (credentials.includes(':') && isSameText(password, token)) return { isAllowed: true };
  return {
    isAllowed: false,
    status: 401,
    message: 'expected HTTP Basic credentials: any user name, and SLUICE_TOKEN as the password',
    headers: { 'www-authenticate': 'Basic realm="sluice", charset="UTF-8"' },
  };
}

/** Compares hashes, so that neither the length nor the first difference shows in the time it takes. */
function isSameText(a: string, b: string): boolean {
  return timingSafeEqual(sha256(a), sha256(b));
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

function checkHost(host: string | undefined): Authorization {
  const name = /^(?:\[([0-9a-f:]+)\]|([^:[\]]+))(?::\d{1,5})?$/i.exec(host ?? '');
  if (isLoopback((name?.[1] ?? name?.[2] ?? '').toLowerCase())) return { isAllowed: true };
  return {
    isAllowed: false,
    status: 403,
    message:
      'expected a Host header that names this machine, such as 127.0.0.1 or localhost. Set SLUICE_TOKEN to use another name',
    headers: {},
  };
}
