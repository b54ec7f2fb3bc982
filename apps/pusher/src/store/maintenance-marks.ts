import { stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { NOTES } from '@sluice/ref-store';

/** What keeps a second process from maintaining the same repository. */
export function maintenanceLock(folder: string): string {
  return join(folder, 'sluice-maintenance.lock');
}

/** To be called before the lock is given back. `sluice repo show` knows from the file's age when this was. */
export async function markMaintained(folder: string): Promise<void> {
  await writeFile(join(folder, NOTES.maintained), '');
}

/**
 * A word that changes when a repository is maintained; null: that is going on now. By itself and not by the time of a
 * clock: the one that the file system uses is milliseconds behind the other.
 */
export async function maintenanceMark(folder: string): Promise<string | null> {
  const isUnderWay = await stat(maintenanceLock(folder)).then(
    () => true,
    () => false,
  );
  if (isUnderWay) return null;
  const done = await stat(join(folder, NOTES.maintained)).catch(() => undefined);
  return String(done?.mtimeMs ?? 'never');
}
