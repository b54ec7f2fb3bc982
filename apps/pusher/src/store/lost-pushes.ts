import { access, appendFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from '@sluice/service-kit';
import type { LostState } from '../git/ref-cache.ts';

/** Says that objects of a repository may be all that is left of pushes: nothing is taken out of it while this is there. */
const NOTE = 'sluice-lost-pushes';

/** Reports that a database went back behind what it had accepted, and sees to it that the objects stay. */
export async function noteLostPushes(
  log: Logger,
  { repoId, folder, refsVersion, pushId }: LostState,
): Promise<void> {
  log.error({ event: 'pushes_lost', repo_id: repoId, push_id: pushId, refs_version: refsVersion });
  await appendFile(join(folder, NOTE), `push ${pushId} (version ${refsVersion}) is not in the database\n`);
}

export async function hasLostPushes(folder: string): Promise<boolean> {
  return await access(join(folder, NOTE)).then(
    () => true,
    () => false,
  );
}
