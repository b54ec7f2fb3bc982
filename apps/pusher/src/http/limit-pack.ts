import { HttpError } from '../http-error.ts';
import type { Settings } from '../settings.ts';
import { repoBytes, repoIsFull } from '../store/repo-growth.ts';

export interface PackLimit {
  bytesMax: number;
  /** For who sends more. */
  refusal: string;
}

/**
 * How large the pack of a push may be, by what is there when it begins; once it has come, `judgeGrowth` looks again.
 * A dispatcher's result is never too much for its repository.
 */
export async function packLimit(
  { folder, claimRef }: { folder: string; claimRef: string | null },
  { pushBytesMax, repoBytesMax }: Pick<Settings, 'pushBytesMax' | 'repoBytesMax'>,
): Promise<PackLimit> {
  if (repoBytesMax !== undefined && claimRef === null) {
    const left = Math.max(0, repoBytesMax - (await repoBytes(folder)));
    if (left < pushBytesMax) return { bytesMax: left, refusal: repoIsFull(repoBytesMax) };
  }
  const refusal = `expected a pack of at most ${pushBytesMax} bytes (SLUICE_PUSH_BYTES), got more; push fewer commits at once`;
  return { bytesMax: pushBytesMax, refusal };
}

/** Passes a push on, and ends it with an error once its pack is too large. */
export async function* limitPack(
  push: AsyncIterable<Buffer>,
  { preambleBytes, limit }: { preambleBytes: number; limit: PackLimit },
): AsyncGenerator<Buffer, void, void> {
  let left = preambleBytes + limit.bytesMax;
  for await (const chunk of push) {
    left -= chunk.length;
    // Before git, which has a limit as well, sees it: what git says leaves open what to do.
    if (left < 0) throw new HttpError(413, limit.refusal);
    yield chunk;
  }
}
