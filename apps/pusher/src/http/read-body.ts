import type { IncomingMessage } from 'node:http';
import { createGunzip } from 'node:zlib';
import { HttpError } from '../http-error.ts';
import { ClientPace, UPLOAD } from './client-pace.ts';

export interface BodyLimits {
  bytesMax: number;
  /** Longest silence while the client owes bytes. */
  idleMs: number;
  /** Longest time for all of it: a byte now and then is no silence. */
  totalMs: number;
  /** Whether others wait for what the request holds: then a client that is nearly silent is let go sooner. */
  isWanted?: () => boolean;
}

/**
 * A request's body as it comes. Throws {@link HttpError} when it grows beyond `bytesMax`, takes longer than `totalMs`
 * or the client falls silent for `idleMs`, and `ClientGone` when the client leaves before the end. Time in which nobody
 * asks for the next chunk is no silence: a slow disk is not a slow client. Whoever gets an error can still be told so:
 * the request is not destroyed.
 */
export async function* readBody(
  request: IncomingMessage,
  limits: BodyLimits,
): AsyncGenerator<Buffer, void, void> {
  const endsAt = performance.now() + limits.totalMs;
  let bytes = 0;
  const patience = new AbortController();
  const giveUp = (message: string): void => patience.abort(new HttpError(408, message));
  const pace = new ClientPace(UPLOAD, {
    isWanted: limits.isWanted ?? (() => false),
    onTooSlow: () => giveUp('the client sent next to nothing while others waited'),
  });
  try {
    for (;;) {
      if (performance.now() > endsAt)
        throw new HttpError(408, `expected the whole request within ${limits.totalMs} ms, got only a part`);
      const silence = setTimeout(
        () => giveUp(`the client sent nothing for ${limits.idleMs} ms`),
        limits.idleMs,
      );
      pace.wait();
      const chunk = await nextChunk(request, patience.signal).finally(() => clearTimeout(silence));
      pace.count(chunk?.length ?? 0);
      if (chunk === null) break;
      bytes += chunk.length;
      if (bytes > limits.bytesMax)
        throw new HttpError(413, `expected at most ${limits.bytesMax} bytes, got more`);
      yield chunk;
    }
  } finally {
    pace.end();
  }
  if (!request.complete) throw new ClientGone(undefined);
}

/** What has arrived; null: that was all. Rejects with the signal's reason. */
async function nextChunk(request: IncomingMessage, signal: AbortSignal): Promise<Buffer | null> {
  for (;;) {
    const chunk = request.read() as Buffer | null;
    if (chunk !== null) return chunk;
    if (request.readableEnded) return null;
    if (request.destroyed) throw new ClientGone(request.errored);
    signal.throwIfAborted();
    await anyOf(['readable', 'end', 'close', 'error'], request, signal);
  }
}

async function anyOf(
  events: readonly string[],
  emitter: NodeJS.EventEmitter,
  signal?: AbortSignal,
): Promise<void> {
  await new Promise<void>((resolve) => {
    const done = (): void => {
      for (const event of events) emitter.off(event, done);
      signal?.removeEventListener('abort', done);
      resolve();
    };
    for (const event of events) emitter.on(event, done);
    signal?.addEventListener('abort', done);
  });
}

/** The client left before it had sent everything. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone';

  constructor(cause: unknown) {
    super('the client left before the end of its request', { cause });
  }
}

/** Whatever the number of requests, so much of each may be in memory. */
const SMALL_BYTES = 64 * 1024;

export interface WholeBodyLimits extends BodyLimits {
  /** Awaited once, before what goes beyond 64 KiB is read: a few bytes of gzip may be many, and many such requests come. */
  beforeMore: () => Promise<void>;
}

/** Reads a whole body into memory, inflated if the client compressed it; both sizes are limited. */
export async function readWholeBody(request: IncomingMessage, limits: WholeBodyLimits): Promise<Buffer> {
  const body = readBody(request, limits);
  const encoding = request.headers['content-encoding'] ?? 'identity';
  if (encoding !== 'gzip' && encoding !== 'x-gzip') return await collect(body, limits);
  const gunzip = createGunzip();
  const feeding = (async () => {
    for await (const chunk of body)
      if (!gunzip.write(chunk)) await anyOf(['drain', 'close', 'error'], gunzip);
    gunzip.end();
  })();
  feeding.catch((error: unknown) => gunzip.destroy(error as Error));
  try {
    return await collect(gunzip, limits);
  } catch (error) {
    if (error instanceof HttpError || error instanceof ClientGone) throw error;
    throw new HttpError(400, 'expected a gzip body, got bytes that do not inflate');
  } finally {
    gunzip.destroy();
  }
}

async function collect(chunks: AsyncIterable<Buffer>, limits: WholeBodyLimits): Promise<Buffer> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of chunks) {
    const isLarge = bytes <= SMALL_BYTES && bytes + chunk.length > SMALL_BYTES;
    if (isLarge) await limits.beforeMore();
    bytes += chunk.length;
    if (bytes > limits.bytesMax) {
      throw new HttpError(413, `expected at most ${limits.bytesMax} bytes after inflating, got more`);
    }
    parts.push(chunk);
  }
  return Buffer.concat(parts, bytes);
}
