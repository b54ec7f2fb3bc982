import { open, rename, unlink } from 'node:fs/promises';

/** Puts a file in another's place, whole and on disk; whoever reads it sees the one or the other. */
export async function replaceFile(
  path: string,
  content: string | Buffer,
  { isSynced = true }: { isSynced?: boolean } = {},
): Promise<void> {
  // Of this process alone: if two ever write at once, each writes a whole file, and the stamp tells which is in place.
  const temporary = `${path}.${process.pid}.sluice-new`;
  try {
    const file = await open(temporary, 'w');
    try {
      await file.writeFile(content);
      if (isSynced) await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await unlink(temporary).catch(() => undefined);
    throw error;
  }
}
