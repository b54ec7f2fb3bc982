import { readdir, rename, rm, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { packFolder } from './list-packs.ts';

/**
 * Git does not know a file of this name. All files of a pack get it, not the index alone: whoever pushes the same pack
 * again would find its file there, drop their own, and lose it with the one that is hidden.
 */
const HIDDEN = '.sluice-hidden';
const INDEX = '.idx';

/** Takes packs out of git's sight; {@link showHiddenPacks} brings them back. */
export async function hidePacks(folder: string, names: readonly string[]): Promise<void> {
  const all = await files(folder);
  // An index over several packs would go on showing them.
  for (const file of all) {
    if (file.startsWith('multi-pack-index')) await unlink(join(packFolder(folder), file));
  }
  for (const name of names) {
    // Git knows a pack by its index. What holds a pack is not the pack's but the push's that is under way.
    const others = all.filter(
      (file) => nameOf(file) === name && !file.endsWith(INDEX) && !file.endsWith('.keep'),
    );
    for (const file of [name + INDEX, ...others]) {
      const path = join(packFolder(folder), file);
      await rename(path, path + HIDDEN);
    }
  }
}

/** Whether a process that hid packs died before it was done with them, or is at it. */
export async function hasHiddenPacks(folder: string): Promise<boolean> {
  return (await files(folder)).some((file) => file.endsWith(HIDDEN));
}

/** Undoes {@link hidePacks}, also that of a process that died in the middle; what it had begun to delete goes. */
export async function showHiddenPacks(folder: string): Promise<void> {
  const all = await files(folder);
  for (const hidden of indexLast(all.filter((file) => file.endsWith(HIDDEN)))) {
    const file = hidden.slice(0, -HIDDEN.length);
    const pack = `${nameOf(file)}.pack`;
    const isWhole = all.includes(pack) || all.includes(pack + HIDDEN);
    // One that is there under its own name was pushed meanwhile, and is the same.
    if (isWhole && !all.includes(file))
      await rename(join(packFolder(folder), hidden), join(packFolder(folder), file));
    else await rm(join(packFolder(folder), hidden), { force: true });
  }
}

/** Deletes hidden packs: the packs first and their indexes last, so that whoever comes after a crash knows what to do. */
export async function deleteHiddenPacks(folder: string, names: readonly string[]): Promise<void> {
  const all = await files(folder);
  for (const name of names) {
    const hidden = all.filter((file) => file.endsWith(HIDDEN) && nameOf(file) === name);
    const pack = `${name}.pack${HIDDEN}`;
    for (const file of [pack, ...indexLast(hidden)])
      await rm(join(packFolder(folder), file), { force: true });
  }
}

/** Such as `pack-<hash>`. */
function nameOf(file: string): string {
  return file.slice(0, file.indexOf('.'));
}

function indexLast(hidden: readonly string[]): string[] {
  const isIndex = (file: string): boolean => file.endsWith(INDEX + HIDDEN);
  return [...hidden.filter((file) => !isIndex(file)), ...hidden.filter(isIndex)];
}

async function files(folder: string): Promise<string[]> {
  return await readdir(packFolder(folder)).catch(() => []);
}
