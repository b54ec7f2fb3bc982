import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { ObjectFormat } from './oid.ts';

/** Files in that folder by which a pusher says something about it, to itself later and to the command line. */
export const NOTES = {
  /** Its age says when the repository was last maintained. */
  maintained: 'sluice-maintained',
  /** A line for each push that the database lost; while it is there, nothing is taken out. */
  lostPushes: 'sluice-lost-pushes',
} as const;

/**
 * Where a repository's objects are. Named by a hash: no file system's idea of case, length or reserved names can make
 * two repositories one, and no name can lead out of the folder.
 */
export function repoFolder(dataDir: string, repoId: string, objectFormat: ObjectFormat): string {
  const hash = createHash('sha256').update(repoId).digest('hex');
  return join(dataDir, 'repos', hash.slice(0, 2), `${hash}.${objectFormat}.git`);
}
