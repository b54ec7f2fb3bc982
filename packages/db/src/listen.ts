import type { Duplex } from 'node:stream';
import pg from 'pg';

/** Channels that Sluice notifies. A notification is a hint: everything works by polling alone. */
export const CHANNELS = {
  /** Work for a sleeping dispatcher; payload `<effect id> <repo id>`. */
  effects: 'sluice_effects',
} as const;

export interface ListenOptions {
  connectionString: string;
  channels: readonly string[];
  onNotification: (channel: string, payload: string) => void;
  /** After the first and every later (re)connect: what happened in between was not seen, so look at the tables now. */
  onReady: () => void;
  /** Each failed or lost connection; the listener reconnects by itself. */
  onError?: (error: unknown) => void;
}

const BACKOFF_MS_MIN = 100;
const BACKOFF_MS_MAX = 5_000;
const PROBE_EVERY_MS = 15_000;
const PROBE_TIMEOUT_MS = 10_000;

/**
 * Listens on a connection of its own until disposed. A lost connection is replaced with back-off (0.1 s to 5 s), and a
 * silent one is found by a probe, since a cut cable sends nothing. Returns at once; `onReady` says when it listens.
 */
export function listen(options: ListenOptions): AsyncDisposable {
  const stop = new AbortController();
  const running = keepListening(options, stop.signal);
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      await running;
    },
  };
}

async function keepListening(options: ListenOptions, stop: AbortSignal): Promise<void> {
  let backoffMs = BACKOFF_MS_MIN;
  while (!stop.aborted) {
    try {
      await listenOnce(options, stop, () => {
        backoffMs = BACKOFF_MS_MIN;
      });
    } catch (error) {
      if (!stop.aborted) options.onError?.(error);
    }
    // Jitter, so that a server that comes back is not met by every process in the same instant.
    await pause(backoffMs * (0.5 + Math.random() / 2), stop);
    backoffMs = Math.min(backoffMs * 2, BACKOFF_MS_MAX);
  }
}

/** One connection, from its opening to its loss; throws why it was lost. */
async function listenOnce(options: ListenOptions, stop: AbortSignal, onListening: () => void): Promise<void> {
  const client = new pg.Client({
    connectionString: options.connectionString,
    application_name: 'sluice-listen',
    connectionTimeoutMillis: PROBE_TIMEOUT_MS,
    query_timeout: PROBE_TIMEOUT_MS,
    keepAlive: true,
  });
  const lost = Promise.withResolvers<void>();
  client.on('error', lost.reject);
  client.on('end', () => lost.reject(new Error('The listening connection was closed')));
  client.on('notification', ({ channel, payload }) => options.onNotification(channel, payload ?? ''));
  const stopWaiting = (): void => lost.resolve();
  stop.addEventListener('abort', stopWaiting);
  let probe: NodeJS.Timeout | undefined;
  try {
    await Promise.race([client.connect(), lost.promise]);
    if (stop.aborted) return;
    for (const channel of options.channels)
      await Promise.race([client.query(`listen ${pg.escapeIdentifier(channel)}`), lost.promise]);
    if (stop.aborted) return;
    probe = setInterval(() => void client.query('select 1').catch(lost.reject), PROBE_EVERY_MS);
    onListening();
    options.onReady();
    await lost.promise;
  } finally {
    clearInterval(probe);
    stop.removeEventListener('abort', stopWaiting);
    lost.promise.catch(() => undefined);
    await close(client);
  }
}

/** Ending politely waits for the server's answer; one that is frozen is dropped instead. */
async function close(client: pg.Client): Promise<void> {
  const { stream } = (client as unknown as { connection: { stream: Duplex } }).connection;
  const dropping = setTimeout(() => stream.destroy(), 1_000);
  await client.end().catch(() => undefined);
  clearTimeout(dropping);
}

async function pause(ms: number, stop: AbortSignal): Promise<void> {
  if (stop.aborted) return;
  await new Promise<void>((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      stop.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    stop.addEventListener('abort', done);
  });
}
