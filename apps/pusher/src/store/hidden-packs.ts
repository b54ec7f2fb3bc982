import { readdir, rename, rm, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { packFolder } from './list-packs.ts';

/** Git does not know a pack whose index has another name, and nothing of it is gone yet. */
const HIDDEN = '.sluice-hidden';

/** Takes packs out of git's sight; {@link showHiddenPacks} brings them back. */
export async function hidePacks(folder: string, names: readonly string[]): Promise<void> {
  // An index over several packs would go on showing them.
  for (const file of await files(folder)) {
    if (file.startsWith('multi-pack-index')) await unlink(join(packFolder(folder), file));
  }
  for (const name of names) {
    const index = join(packFolder(folder), `${name}.idx`);
    await rename(index, index + HIDDEN);
  }
}

/** Whether a process that hid packs died before it was done with them, or is at it. */
export async function hasHiddenPacks(folder: string): Promise<boolean> {
  return (await files(folder)).some((file) => file.endsWith(HIDDEN));
}

/** Undoes {@link hidePacks}, also that of a process that died in the middle; what it had begun to delete goes. */
export async function showHiddenPacks(folder: string): Promise<void> {
  const all = await files(folder);
  for (const file of all.filter((one) => one.endsWith(HIDDEN))) {
    const index = file.slice(0, -HIDDEN.length);
    const name = index.slice(0, -'.idx'.length);
    if (all.includes(`${name}.pack`))
      await rename(join(packFolder(folder), file), join(packFolder(folder), index));
    else await deleteHiddenPacks(folder, [name]);
  }
}

/** Deletes hidden packs: the packs first and their indexes last, so that whoever comes after a crash knows what to do. */
export async function deleteHiddenPacks(folder: string, names: readonly string[]): Promise<void> {
  const all = await files(folder);
  for (const name of names) {
    const others = all.filter((file) => file.startsWith(`${name}.`) && !file.endsWith(HIDDEN));
    for (const file of [`${name}.pack`, ...others, `${name}.idx${HIDDEN}`])
      await rm(join(packFolder(folder), file), { force: true });
  }
}

async function files(folder: string): Promise<string[]> {
  return await readdir(packFolder(folder)).catch(() => []);
}
