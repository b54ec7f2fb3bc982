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

/** What is known since objects were last taken out. */
export interface LastPrune {
  atMs: number;
  /** Packs that held nothing but what was to be kept. */
  clean: ReadonlySet<string>;
}

/** Null: nothing was ever taken out. */
export async function lastPrune(folder: string): Promise<LastPrune | null> {
  const stamp = await readPruneStamp(folder);
  if (stamp === '') return null;
  const { mtimeMs } = await stat(join(folder, STAMP));
  return { atMs: mtimeMs, clean: new Set(stamp.split(' ').slice(1)) };
}

/** Changes the stamp. A reader that sees half of it sees another stamp, which is what it has to see. */
export async function changePruneStamp(folder: string, clean: Iterable<string>): Promise<void> {
  await writeFile(join(folder, STAMP), [randomUUID(), ...clean].join(' '));
}
