import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { gitEnvironment } from '../git/git-environment.ts';
import { readGit } from '../git/read-git.ts';
import { readPruneStamp } from './prune-stamp.ts';
import { NOT_DELTIFIED } from '../git/serve-configuration.ts';

/** Asked in the transaction that commits a push, with the objects that it names: why it must not commit, or null. */
export type PruneWatch = (oids: readonly string[]) => Promise<string | null>;

/** PostgreSQL ends a transaction that stands still for 10 s. */
const WALK_MS_MAX = 5_000;

/**
 * To be called before git looks at a push: remembers what the repository is like. If objects were taken out of it
 * until the push commits, the watch has git walk once more from what the push names to what refs name. Nothing can be
 * taken out while it walks, since the push has the repository locked. The whole folder may be gone as well, as long as
 * the repository has no row ({@link removeUnborn}).
 */
export async function watchPrunes({
  folder,
  home,
  memoryBytesMax,
}: {
  folder: string;
  home: string;
  memoryBytesMax: number;
}): Promise<PruneWatch> {
  const place = await placeOf(folder);
  const before = await readPruneStamp(folder);
  return async (oids) => {
    if ((await placeOf(folder)) !== place)
      return 'the folder that this push was in was taken away meanwhile, with that of another one that was refused; push again';
    if ((await readPruneStamp(folder)) === before || oids.length === 0) return null;
    try {
      await readGit({
        args: ['--git-dir', folder, 'rev-list', '--objects', '--quiet', '--stdin', '--not', '--all'],
        env: gitEnvironment({ home, config: [['safe.directory', folder], NOT_DELTIFIED] }),
        input: oids.map((oid) => `${oid}\n`).join(''),
        timeoutMs: WALK_MS_MAX,
        bytesMax: 0,
        memoryBytesMax,
      });
      return null;
    } catch {
      return 'objects that nothing named were just taken out of the repository, and this push may need them; push again';
    }
  };
}

/** Tells a folder from another one that has taken its place: git never writes this file. */
async function placeOf(folder: string): Promise<string> {
  const found = await stat(join(folder, 'description'), { bigint: true }).catch(() => undefined);
  return `${found?.ino} ${found?.ctimeNs}`;
}
