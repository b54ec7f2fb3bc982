import { readdir, readFile, unlink } from 'node:fs/promises';
import { join } from 'node:path';

/** A ref in a file of its own, which git believes before `packed-refs`. */
interface LooseRef {
  name: string;
  /** What the file holds: an OID, or `ref: <name>`. */
  value: string;
}

/** Takes away the files of refs, so that `packed-refs` counts; returns what was there. */
export async function removeLooseRefs(folder: string): Promise<LooseRef[]> {
  const refs = await readLooseRefs(folder);
  for (const { name } of refs) await unlink(join(folder, name)).catch(() => undefined);
  return refs;
}

/** Every ref below `refs/` that has one. */
async function readLooseRefs(folder: string): Promise<LooseRef[]> {
  const refs: LooseRef[] = [];
  const walk = async (name: string): Promise<void> => {
    for (const entry of await readdir(join(folder, name), { withFileTypes: true })) {
      const child = `${name}/${entry.name}`;
      if (entry.isDirectory()) await walk(child);
      else if (!child.endsWith('.lock')) {
        const value = await readFile(join(folder, child), 'utf8').catch(() => null);
        if (value !== null) refs.push({ name: child, value: value.trim() });
      }
    }
  };
  await walk('refs');
  return refs;
}
