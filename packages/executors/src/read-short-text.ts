import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';

const BYTES_MAX = 8_192;
const END_MS_MAX = 2_000;

/** Collects the first 8 KiB of a pipe; the returned function waits for its end, within a bound, and closes it. */
export function readShortText(pipe: Readable): () => Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  const ended = Promise.withResolvers<void>();
  pipe.on('data', (chunk: Buffer) => {
    if (bytes < BYTES_MAX) chunks.push(chunk.subarray(0, BYTES_MAX - bytes));
    bytes += chunk.length;
  });
  pipe.once('close', ended.resolve);
  pipe.on('error', () => ended.resolve());
  return async () => {
    const limit = new AbortController();
    await Promise.race([
      ended.promise,
      delay(END_MS_MAX, undefined, { signal: limit.signal }).catch(() => {}),
    ]);
    limit.abort();
    pipe.destroy();
    return Buffer.concat(chunks).toString();
  };
}
