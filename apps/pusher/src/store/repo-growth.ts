import { join } from 'node:path';
import { withLockFile } from '../git/folder-lock.ts';
import { HttpError } from '../http-error.ts';
import { listPacks, packsIn } from './list-packs.ts';

/** For who brings more than a repository may hold. */
export function repoIsFull(bytesMax: number): string {
  return `expected a repository of at most ${bytesMax} bytes (SLUICE_REPO_BYTES), got more with this push; ask for a larger limit`;
}

/** How large a repository is, counted as its limit is. */
export async function repoBytes(folder: string): Promise<number> {
  return sum(await listPacks(folder));
}

/** Whether a push may put its objects into the repository. */
interface Growth {
  /** Why it may not; null: it may, and nobody else's do until it is told that they are there. */
  fault: string | null;
  /** They are there, or will never be. */
  end: () => Promise<void>;
}

/**
 * Judges a push whose objects are in quarantine by what the repository then holds. Pushes to a repository go one by one
 * from here until their objects are in place, whichever process takes them, so those that come at once do not exceed the
 * limit together. What git adds to a pack, since its sender left out what the repository has, counts as well.
 */
export async function judgeGrowth({
  folder,
  quarantine,
  bytesMax,
}: {
  folder: string;
  /** Its folder's name. */
  quarantine: string;
  bytesMax: number;
}): Promise<Growth> {
  const fault = Promise.withResolvers<string | null>();
  const isOver = Promise.withResolvers<void>();
  const turn = withLockFile(join(folder, 'sluice-growth.lock'), async () => {
    const brought = sum(await packsIn(join(folder, 'objects', quarantine, 'pack')));
    if ((await repoBytes(folder)) + brought > bytesMax) return fault.resolve(repoIsFull(bytesMax));
    fault.resolve(null);
    await isOver.promise;
  }).catch((error: unknown) => {
    if (error instanceof HttpError) fault.resolve(error.message);
    else fault.reject(error);
  });
  const end = async (): Promise<void> => {
    isOver.resolve();
    await turn;
  };
  return { fault: await fault.promise, end };
}

function sum(packs: readonly { bytes: number }[]): number {
  return packs.reduce((total, { bytes }) => total + bytes, 0);
}
