import { HttpError } from './http-error.ts';

/** Passes a push on, and ends it with an error once its pack is larger than `packBytesMax`. */
export async function* limitPack(
  push: AsyncIterable<Buffer>,
  { preambleBytes, packBytesMax }: { preambleBytes: number; packBytesMax: number },
): AsyncGenerator<Buffer, void, void> {
  let left = preambleBytes + packBytesMax;
  for await (const chunk of push) {
    left -= chunk.length;
    // Before git, which has the same limit, sees it: what git says leaves open what to do.
    if (left < 0) {
      throw new HttpError(
        413,
        `expected a pack of at most ${packBytesMax} bytes (SLUICE_PUSH_BYTES), got more; push fewer commits at once`,
      );
    }
    yield chunk;
  }
}
