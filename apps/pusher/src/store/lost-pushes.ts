import { access, appendFile } from 'node:fs/promises';
import { join } from 'node:path';
import { NOTES } from '@sluice/ref-store';
import type { Logger } from '@sluice/service-kit';
import type { LostState } from '../git/ref-cache.ts';

/** Reports that a database went back behind what it had accepted, and sees to it that the objects stay. */
export async function noteLostPushes(
  log: Logger,
  { repoId, folder, refsVersion, pushId }: LostState,
): Promise<void> {
  log.error({ event: 'pushes_lost', repo_id: repoId, push_id: pushId, refs_version: refsVersion });
  await appendFile(
    join(folder, NOTES.lostPushes),
    `push ${pushId} (version ${refsVersion}) is not in the database\n`,
  );
}

export async function hasLostPushes(folder: string): Promise<boolean> {
  return await access(join(folder, NOTES.lostPushes)).then(
    () => true,
    () => false,
  );
}
