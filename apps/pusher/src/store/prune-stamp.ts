import { randomUUID } from 'node:crypto';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * A file that changes whenever objects are taken out of a repository. A push that began under one stamp and commits
 * under another asks git once more whether everything that it names is there.
 */
const STAMP = 'sluice-pruned';

/** The stamp now; empty: nothing was ever taken out. */
export async function readPruneStamp(folder: string): Promise<string> {
  try {
    return await readFile(join(folder, STAMP), 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw error;
  }
}

/** The pack that was written when objects were last taken out, and when that was; null: never. */
export async function lastPrune(folder: string): Promise<{ pack: string; atMs: number } | null> {
  const stamp = await readPruneStamp(folder);
  if (stamp === '') return null;
  const { mtimeMs } = await stat(join(folder, STAMP));
  return { pack: stamp.split(' ')[1] ?? '', atMs: mtimeMs };
}

/** Changes the stamp. A reader that sees half of it sees another stamp, which is what it has to see. */
export async function changePruneStamp(folder: string, pack: string | null): Promise<void> {
  await writeFile(join(folder, STAMP), `${randomUUID()} ${pack ?? ''}`);
}
