import { createServer, type RequestListener, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { clientAddress } from './client-address.ts';

export interface ConnectionLimits {
  /** Most connections from one address; null: every connection may be of somebody else, whoever it comes from. */
  perAddress: number | null;
  /** How long a client may take to say what it wants, however busily it sends. */
  headersMs?: number;
  /** How long a connection may be without a request; longer than proxies keep theirs, so that it is they who close it. */
  keepAliveMs?: number;
  /** Told of a connection that is not taken. */
  onRefused: () => void;
}

const CONNECTIONS_MAX = 2000;
const HEADERS_MS = 20_000;
const KEEP_ALIVE_MS = 65_000;
/** Looks for connections that are too slow so much more often than they may be slow. */
const LOOKS = 4;

/** An HTTP server on which neither connections nor headers wait for ever. */
export function createGitServer(
  listener: RequestListener,
  { perAddress, headersMs = HEADERS_MS, keepAliveMs = KEEP_ALIVE_MS, onRefused }: ConnectionLimits,
): Server {
  const server = createServer(
    {
      // Bodies of any length at any speed: how long and how silent they may be is judged where they are read.
      requestTimeout: 0,
      headersTimeout: headersMs,
      connectionsCheckingInterval: headersMs / LOOKS,
      keepAliveTimeout: keepAliveMs,
    },
    listener,
  );
  server.maxConnections = CONNECTIONS_MAX;
  server.on('drop', onRefused);
  if (perAddress === null) return server;
  const open = new Map<string, number>();
  server.on('connection', (socket: Socket) => {
    const address = clientAddress(socket.remoteAddress, undefined, 0);
    const others = open.get(address) ?? 0;
    if (others >= perAddress) {
      onRefused();
      socket.destroy();
      return;
    }
    open.set(address, others + 1);
    socket.once('close', () => {
      const left = open.get(address)! - 1;
      if (left === 0) open.delete(address);
      else open.set(address, left);
    });
  });
  return server;
}
