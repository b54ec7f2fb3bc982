import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** While new connections are refused the port is nobody's, and an outgoing connection may have taken it for a while. */
const REOPEN_WITHIN_MS = 20_000;

export interface TcpProxy extends AsyncDisposable {
  port: number;
  /** The same URL, through the proxy. */
  through(url: string): string;
  /** Resets every open connection; new ones pass. */
  cut(): void;
  /** Nothing passes any more in either direction, as behind a dead cable; new connections open and stay silent. */
  freeze(): void;
  /** Ends freeze: what was held back passes. */
  thaw(): void;
  /** New connections are refused; open ones go on. */
  refuse(): Promise<void>;
  /** Ends refuse. */
  accept(): Promise<void>;
}

/**
 * A TCP proxy in front of a server, for tests of lost, silent and refused connections. The target is read anew for each
 * connection: a server that comes back at another port is found again when the test changes it.
 */
export async function startTcpProxy(target: { host: string; port: number }): Promise<TcpProxy> {
  const pairs = new Set<Pair>();
  let isFrozen = false;
  let server = await open(0);
  const { port } = server.address() as AddressInfo;

  async function open(at: number): Promise<Server> {
    const opened = createServer((client) => join(client)).listen(at, '127.0.0.1');
    await once(opened, 'listening');
    return opened;
  }
  function join(client: Socket): void {
    const upstream = connect(target);
    const pair: Pair = [client, upstream];
    pairs.add(pair);
    for (const [from, to] of [pair, pair.toReversed() as Pair]) {
      from.pipe(to);
      from.on('error', () => to.destroy());
      from.on('close', () => {
        to.destroy();
        pairs.delete(pair);
      });
    }
    if (isFrozen) hold(pair);
  }
  return {
    port,
    through(url) {
      const result = new URL(url);
      result.host = `127.0.0.1:${port}`;
      return result.href;
    },
    cut() {
      for (const pair of pairs) for (const socket of pair) socket.resetAndDestroy();
    },
    freeze() {
      isFrozen = true;
      for (const pair of pairs) hold(pair);
    },
    thaw() {
      isFrozen = false;
      for (const [client, upstream] of pairs) {
        client.pipe(upstream);
        upstream.pipe(client);
      }
    },
    refuse() {
      server.close();
      return Promise.resolve();
    },
    async accept() {
      const end = performance.now() + REOPEN_WITHIN_MS;
      while (!server.listening) {
        try {
          server = await open(port);
        } catch (error) {
          if (performance.now() > end) throw error;
          await sleep(100);
        }
      }
    },
    async [Symbol.asyncDispose]() {
      for (const pair of pairs) for (const socket of pair) socket.destroy();
      if (!server.listening) return;
      server.close();
      await once(server, 'close');
    },
  };
}

type Pair = [client: Socket, upstream: Socket];

function hold(pair: Pair): void {
  for (const socket of pair) {
    socket.unpipe();
    socket.pause();
  }
}
