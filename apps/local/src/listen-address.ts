import { once } from 'node:events';
import { createServer } from 'node:net';
import { hostPort, isLoopback, type HostPort } from '@sluice/service-kit';
import { LocalError } from './local-error.ts';

const DEFAULT: HostPort = { host: '127.0.0.1', port: 7420 };

/** Where the pusher shall listen, checked to be free: the services would say it less clearly, and later. */
export async function listenAddress(value: string | undefined, token: string | undefined): Promise<string> {
  const address = parse(value);
  const host = address.host.includes(':') ? `[${address.host}]` : address.host;
  if (!isLoopback(address.host) && (token ?? '') === '') {
    throw new LocalError(
      `SLUICE_LISTEN: expected a loopback address such as 127.0.0.1 while SLUICE_TOKEN is unset, got ${host}. ` +
        'Whoever reaches it could run commands here. Set SLUICE_TOKEN to a long random text to listen there.',
    );
  }
  const server = createServer();
  try {
    server.listen(address.port, address.host);
    await once(server, 'listening');
  } catch (error) {
    throw new LocalError(
      `SLUICE_LISTEN: expected ${host}:${address.port} to be free, got ${(error as NodeJS.ErrnoException).code ?? String(error)}. ` +
        `Stop what uses it, or choose another port: SLUICE_LISTEN=${host}:${address.port + 1} npm start`,
    );
  } finally {
    server.close();
  }
  return `${host}:${address.port}`;
}

function parse(value: string | undefined): HostPort {
  if (value === undefined || value === '') return DEFAULT;
  const parsed = hostPort()(value);
  if ('value' in parsed && parsed.value.port !== 0) return parsed.value;
  const expected = 'expected' in parsed ? parsed.expected : 'a fixed port';
  throw new LocalError(
    `SLUICE_LISTEN: expected ${expected}, got ${JSON.stringify(value)}; for example SLUICE_LISTEN=127.0.0.1:7420`,
  );
}
