import { join } from 'node:path';
import { treeEntry, type ObjectFormat } from '@sluice/ref-store';
import { readPacked, type PackedObject } from '../git/read-packed.ts';
import { packFolder, packNames } from '../store/list-packs.ts';

/** Reads an object, or null where git has to. */
export type ReadBrought = (oid: string) => Promise<PackedObject | null>;

/** More new packs than pushes at the same moment would bring. */
const PACKS_MAX = 8;

/**
 * To be called before git takes a push. Once its objects are in place, what is returned reads those that came in packs of
 * their own, without a process for each question: the commit of a push, the files of a result.
 */
export async function expectObjects(folder: string, format: ObjectFormat): Promise<ReadBrought> {
  const before = await packNames(folder);
  let arrived: Promise<string[]> | undefined;
  const findArrived = async (): Promise<string[]> => {
    const after = await packNames(folder);
    const names = [...(after ?? [])].filter((name) => before?.has(name) !== true);
    return names.length > PACKS_MAX ? [] : names;
  };
  return async (oid) => {
    arrived ??= findArrived();
    for (const name of await arrived) {
      const found = readPacked(join(packFolder(folder), name), format, oid);
      if (found !== null) return found;
    }
    return null;
  };
}

/** Reads a file at the root of a commit; undefined if there is none, or git has to say. */
export async function readBroughtFile(
  read: ReadBrought,
  { commit, file }: { commit: string; file: string },
): Promise<Buffer | undefined> {
  const tree = treeOf(await read(commit));
  const found = tree === undefined ? null : await read(tree);
  const entry = found?.kind === 'tree' ? treeEntry(found.content, file, commit.length / 2) : undefined;
  const blob = entry?.mode === '100644' ? await read(entry.oid) : null;
  return blob?.kind === 'blob' ? blob.content : undefined;
}

/** The tree of a commit; undefined: it is no commit. */
export function treeOf(object: PackedObject | null): string | undefined {
  if (object?.kind !== 'commit') return undefined;
  return /^tree ([0-9a-f]+)\n/.exec(object.content.toString('latin1', 0, 100))?.[1];
}
