import { stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const DONE = 'sluice-maintained';

/** What keeps a second process from maintaining the same repository. */
export function maintenanceLock(folder: string): string {
  return join(folder, 'sluice-maintenance.lock');
}

/** To be called before the lock is given back. `sluice repo show` knows from the file's age when this was. */
export async function markMaintained(folder: string): Promise<void> {
  await writeFile(join(folder, DONE), '');
}

/** Whether a repository is being maintained, or was since: then packs are gone because what was in them is elsewhere. */
export async function isMaintained(folder: string, sinceMs: number): Promise<boolean> {
  const isUnderWay = await stat(maintenanceLock(folder)).then(
    () => true,
    () => false,
  );
  const done = await stat(join(folder, DONE)).catch(() => undefined);
  return isUnderWay || (done !== undefined && done.mtimeMs >= sinceMs);
}
