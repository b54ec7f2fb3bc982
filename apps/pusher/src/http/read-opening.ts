import { HttpError } from '../http-error.ts';
import { PktLineError } from '../wire/pkt-line.ts';
import { parsePreamble, PreambleRefused, type Preamble, type PreambleLimits } from '../wire/preamble.ts';

/** Longest list of refs, certificate and push options included. */
export const PREAMBLE_BYTES_MAX = 2 * 1024 * 1024;

/** The beginning of a push. */
export interface Opening {
  preamble: Preamble;
  /** The preamble's bytes and what came with them. */
  bytes: Buffer;
}

/** Reads as much of a push as says what it wants; what it refuses comes back, and what is no push throws. */
export async function readOpening(
  body: AsyncGenerator<Buffer, void, void>,
  { refsPerPushMax }: { refsPerPushMax: number },
): Promise<Opening | PreambleRefused | 'probe'> {
  const limits = {
    bytesMax: PREAMBLE_BYTES_MAX,
    refsMax: refsPerPushMax,
  };
  const parts: Buffer[] = [];
  let length = 0;
  let nextTry = 1;
  for (;;) {
    const next = await body.next();
    if (next.done !== true) {
      parts.push(next.value);
      length += next.value.length;
      // Reading from the start again with every few bytes would cost the square of the length.
      if (length < nextTry) continue;
    }
    const bytes = Buffer.concat(parts, length);
    const found = tryParse(bytes, limits);
    if (found === 'probe' || found instanceof PreambleRefused) return found;
    if (found !== null) return { preamble: found, bytes };
    if (next.done === true)
      throw new HttpError(400, 'expected a push, got an end in the middle of its list of refs');
    nextTry = length * 1.5;
  }
}

/**
 * Where slots are scarce, this much of a push has to be there before it stands in line for one: who announces a push and
 * falls silent keeps nobody waiting.
 */
const READ_AHEAD_BYTES = 64 * 1024;

/** What has arrived, with what follows: all of a small push, the beginning of a large one. */
export async function readAhead(body: AsyncGenerator<Buffer, void, void>, opening: Buffer): Promise<Buffer> {
  const parts = [opening];
  for (let length = 0; length < READ_AHEAD_BYTES;) {
    const next = await body.next();
    if (next.done === true) break;
    parts.push(next.value);
    length += next.value.length;
  }
  return Buffer.concat(parts);
}

function tryParse(bytes: Buffer, limits: PreambleLimits): ReturnType<typeof parsePreamble> | PreambleRefused {
  try {
    return parsePreamble(bytes, limits);
  } catch (error) {
    if (error instanceof PreambleRefused) return error;
    if (error instanceof PktLineError) throw new HttpError(400, `expected a push, got: ${error.message}`);
    throw error;
  }
}
