import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * What an adopted repository holds of Sluice's, apart from two hooks and one line of configuration. `repo` has the
 * repository's id and is what makes it an adopted one.
 */
export const ADOPTED = {
  folder: 'sluice',
  repo: 'sluice/repo',
  /** Environment variables, read by the shell; readable by its owner only, since a password may be among them. */
  settings: 'sluice/env',
  /** Git's configuration, which the repository's own includes. */
  config: 'sluice/git-config',
  /** A note per running push, from pre-receive to proc-receive. */
  pushes: 'sluice/pushes',
  log: 'sluice/log',
} as const;

/** The repository that a folder was adopted as; null: it was not. */
export async function adoptedAs(folder: string): Promise<string | null> {
  try {
    return (await readFile(join(folder, ADOPTED.repo), 'utf8')).trimEnd();
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return null;
    throw error;
  }
}
