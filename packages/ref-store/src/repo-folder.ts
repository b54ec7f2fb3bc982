import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { ObjectFormat } from './oid.ts';

/**
 * Where a repository's objects are. Named by a hash: no file system's idea of case, length or reserved names can make
 * two repositories one, and no name can lead out of the folder.
 */
export function repoFolder(dataDir: string, repoId: string, objectFormat: ObjectFormat): string {
  const hash = createHash('sha256').update(repoId).digest('hex');
  return join(dataDir, 'repos', hash.slice(0, 2), `${hash}.${objectFormat}.git`);
}
