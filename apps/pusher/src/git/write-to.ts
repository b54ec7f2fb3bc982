import { once } from 'node:events';
import type { Writable } from 'node:stream';

/** Hands a process its input no faster than it takes it. Returns at once when the process is gone: its exit code says so. */
export async function writeTo(stream: Writable, chunk: Buffer | string): Promise<void> {
  if (stream.destroyed || stream.write(chunk)) return;
  const waiting = new AbortController();
  const options = { signal: waiting.signal };
  await Promise.race([once(stream, 'drain', options), once(stream, 'close', options)]).catch(() => undefined);
  waiting.abort();
}
