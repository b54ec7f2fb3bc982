import { once } from 'node:events';
import type { Writable } from 'node:stream';

/** Hands a process its input, or a client its answer, no faster than it is taken. Returns at once when whoever takes it is gone. */
export async function writeTo(stream: Writable, chunk: Buffer | string): Promise<void> {
  if (stream.destroyed || stream.write(chunk)) return;
  const waiting = new AbortController();
  const options = { signal: waiting.signal };
  await Promise.race([once(stream, 'drain', options), once(stream, 'close', options)]).catch(() => undefined);
  waiting.abort();
}
