import type { AddressInfo, Server } from 'node:net';
import type { HostPort } from './setting-parsers.ts';
import { SettingsError } from './settings-error.ts';

/**
 * Has an HTTP server listen where a setting says; returns `http://host:port`, with the port that was really taken. Throws
 * a {@link SettingsError} if nobody can listen there.
 */
export async function listenOn(server: Server, { host, port }: HostPort, setting: string): Promise<string> {
  const listening = Promise.withResolvers<void>();
  server.once('error', listening.reject);
  server.listen({ host, port }, listening.resolve);
  try {
    await listening.promise;
  } catch (error) {
    throw explain(error, { host, port, setting });
  } finally {
    server.off('error', listening.reject);
  }
  const found = server.address() as AddressInfo;
  return `http://${bracketed(found.address)}:${found.port}`;
}

/** What was expected, and what to do; the place that was named stands between. */
const FAULTS: Readonly<Record<string, readonly [expected: string, next: string]>> = {
  EADDRINUSE: ['a free port', 'where another process listens. Stop it, or choose another port'],
  EADDRNOTAVAIL: ['an address of this machine', 'which it does not have. Choose one that it has'],
  EACCES: ['a port that this user may listen on', 'which is for root. Choose one from 1024 on'],
  ENOTFOUND: [
    'an address or a name that leads to one',
    'which leads nowhere. Choose 127.0.0.1 or another address',
  ],
};

function explain(error: unknown, { host, port, setting }: HostPort & { setting: string }): unknown {
  const [expected, next] = FAULTS[(error as NodeJS.ErrnoException).code ?? ''] ?? [];
  if (expected === undefined) return error;
  const message = `expected ${expected}, got ${bracketed(host)}:${port}, ${next}`;
  return new SettingsError([{ name: setting, message }]);
}

function bracketed(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}
