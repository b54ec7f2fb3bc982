import type { IncomingMessage } from 'node:http';
import { createGunzip } from 'node:zlib';
import { HttpError } from './http-error.ts';
import { UploadPace } from './upload-pace.ts';

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
 * asks for the next chunk is no silence: a slow disk is not a slow client.
 */
export async function* readBody(
  request: IncomingMessage,
  limits: BodyLimits,
): AsyncGenerator<Buffer, void, void> {
  const endsAt = performance.now() + limits.totalMs;
  let bytes = 0;
  let silence: NodeJS.Timeout | undefined;
  const pace = new UploadPace({
    isWanted: limits.isWanted ?? (() => false),
    onTooSlow: () =>
      request.destroy(new HttpError(408, 'the client sent next to nothing while others waited')),
  });
  // Let go of without being destroyed: whoever gets an error must still be able to hear it.
  const chunks = request.iterator({ destroyOnReturn: false }) as AsyncIterator<Buffer>;
  try {
    for (;;) {
      if (performance.now() > endsAt)
        throw new HttpError(408, `expected the whole request within ${limits.totalMs} ms, got only a part`);
      silence = setTimeout(() => {
        request.destroy(new HttpError(408, `the client sent nothing for ${limits.idleMs} ms`));
      }, limits.idleMs);
      pace.wait();
      const next = await chunks.next();
      clearTimeout(silence);
      pace.arrive(next.done === true ? 0 : next.value.length);
      if (next.done === true) break;
      bytes += next.value.length;
      if (bytes > limits.bytesMax)
        throw new HttpError(413, `expected at most ${limits.bytesMax} bytes, got more`);
      yield next.value;
    }
  } catch (error) {
    if (error instanceof HttpError) throw error;
    throw new ClientGone(error);
  } finally {
    clearTimeout(silence);
    pace.end();
    await chunks.return?.();
  }
  if (!request.complete) throw new ClientGone(undefined);
}

/** The client left before it had sent everything. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone';

  constructor(cause: unknown) {
    super('the client left before the end of its request', { cause });
  }
}

/** Reads a whole body into memory, inflated if the client compressed it; both sizes are limited. */
export async function readWholeBody(request: IncomingMessage, limits: BodyLimits): Promise<Buffer> {
  const body = readBody(request, limits);
  const encoding = request.headers['content-encoding'] ?? 'identity';
  if (encoding !== 'gzip' && encoding !== 'x-gzip') return await collect(body, limits);
  const gunzip = createGunzip();
  const feeding = (async () => {
    for await (const chunk of body) if (!gunzip.write(chunk)) await drained(gunzip);
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

async function drained(stream: NodeJS.EventEmitter): Promise<void> {
  await new Promise<void>((resolve) => {
    const done = (): void => {
      for (const event of ['drain', 'close', 'error']) stream.off(event, done);
      resolve();
    };
    for (const event of ['drain', 'close', 'error']) stream.on(event, done);
  });
}

async function collect(chunks: AsyncIterable<Buffer>, limits: BodyLimits): Promise<Buffer> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of chunks) {
    bytes += chunk.length;
    if (bytes > limits.bytesMax) {
      throw new HttpError(413, `expected at most ${limits.bytesMax} bytes after inflating, got more`);
    }
    parts.push(chunk);
  }
  return Buffer.concat(parts, bytes);
}
