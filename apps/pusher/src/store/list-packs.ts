import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';

/** A pack that git can use. */
export interface Pack {
  /** Such as `pack-<hash>`, without an ending. */
  name: string;
  bytes: number;
  /** When it was written. */
  modifiedMs: number;
  /** A push that is under way holds it. */
  isHeld: boolean;
}

export function packFolder(folder: string): string {
  return join(folder, 'objects', 'pack');
}

/** Names of a repository's packs; null: there is no such folder. Git knows a pack by its index. */
export async function packNames(folder: string): Promise<Set<string> | null> {
  const names = await readdir(packFolder(folder)).catch(() => null);
  return names === null ? null : new Set(names.flatMap(nameOfIndex));
}

/** The packs of a repository, without those that vanish meanwhile. */
export async function listPacks(folder: string): Promise<Pack[]> {
  return await packsIn(packFolder(folder));
}

/** The same for a folder of packs. */
export async function packsIn(folder: string): Promise<Pack[]> {
  const names = await readdir(folder).catch(() => []);
  const held = new Set(names.filter((name) => name.endsWith('.keep')));
  const packs: Pack[] = [];
  for (const name of names.flatMap(nameOfIndex)) {
    const found = await stat(join(folder, `${name}.pack`)).catch(() => undefined);
    if (found === undefined) continue;
    packs.push({
      name,
      bytes: found.size,
      modifiedMs: found.mtimeMs,
      isHeld: held.has(`${name}.keep`),
    });
  }
  return packs;
}

function nameOfIndex(file: string): string[] {
  const [, name] = /^(pack-[0-9a-f]{40,64})\.idx$/.exec(file) ?? [];
  return name === undefined ? [] : [name];
}
