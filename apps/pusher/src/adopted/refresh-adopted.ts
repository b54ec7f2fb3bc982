import { removeLooseRefs } from '../git/loose-refs.ts';
import { writeAdoptedConfig } from './adopted-config.ts';
import type { AdoptedRepository } from './open-adopted.ts';

/**
 * Makes what is on disk what the database says: the refs, and whether pushes can be signed. A ref that something else
 * wrote behind Sluice's back is gone then; the log keeps what it was, so that its commits can be found.
 */
export async function refreshAdopted(adopted: AdoptedRepository): Promise<void> {
  const { repoId, folder, refs, log } = adopted;
  await refs.refresh(repoId);
  for (const { name, value } of await removeLooseRefs(folder)) {
    log.warn({ event: 'ref_displaced', repo_id: repoId, ref: name, value });
  }
  await writeAdoptedConfig(adopted);
}
