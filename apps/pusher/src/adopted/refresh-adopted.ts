import type { Logger } from '@sluice/service-kit';
import type { RefCache } from '../git/ref-cache.ts';
import { removeLooseRefs } from './loose-refs.ts';

/**
 * Makes the refs on disk those of the database. A ref that something else wrote behind Sluice's back is gone then; the
 * log keeps what it was, so that its commits can be found.
 */
export async function refreshAdopted(
  { refs, log }: { refs: RefCache; log: Logger },
  { repoId, folder }: { repoId: string; folder: string },
): Promise<void> {
  await refs.refresh(repoId);
  for (const { name, value } of await removeLooseRefs(folder)) {
    log.warn({ event: 'ref_displaced', repo_id: repoId, ref: name, value });
  }
}
