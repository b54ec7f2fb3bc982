import { randomUUID } from 'node:crypto';
import { access, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { inBoundedTransaction, type DB } from '@sluice/db';
import { lockRepo, readRepo, repoFolder, type ObjectFormat } from '@sluice/ref-store';
import type { Kysely } from 'kysely';
import { isOwn, ownFolders } from './sweep-debris.ts';

/** A folder that a first push has made, and which is a repository only once that is accepted. */
export interface Unborn {
  repoId: string;
  objectFormat: ObjectFormat;
  folder: string;
}

/**
 * Removes the folder of a repository that never was one. False: it is one, or was one that the database has forgotten,
 * or another process takes a push to it.
 *
 * The repository is locked by making its row, which is never committed. A first push that has come further in another
 * process waits for that lock, then sees that its folder is gone ({@link watchPrunes}), and is refused. The folder is
 * put aside first, and deleted when the lock is known to have been held all along.
 */
export async function removeUnborn(
  db: Kysely<DB>,
  { repoId, objectFormat, folder }: Unborn,
): Promise<boolean> {
  if (!(await isOwn(folder)) || (await wasBorn(folder)) || (await hasUpload(folder))) return false;
  const aside = `${folder}.${randomUUID()}.new`;
  try {
    await inBoundedTransaction(db, async (trx) => {
      const repo = await lockRepo(trx, { repoId, create: { objectFormat } });
      if (repo === undefined || (!repo.isNew && repo.objectFormat === objectFormat)) return;
      await rename(folder, aside);
      try {
        // Fails if the lock was lost at any time.
        await readRepo(trx, repoId);
      } catch (error) {
        await rename(aside, folder);
        throw error;
      }
      throw new PutAside();
    });
    return false;
  } catch (error) {
    if (!(error instanceof PutAside)) throw error;
  }
  await rm(aside, { recursive: true, force: true });
  return true;
}

/** Takes the transaction back, and with it the row. */
class PutAside extends Error {
  override readonly name = 'PutAside';
}

/**
 * Removes what was left of first pushes by processes that are gone: folders without a repository, in which nothing was
 * written for `olderThanMs`. Returns how many.
 */
export async function sweepUnborn(
  db: Kysely<DB>,
  { dataDir, olderThanMs, signal }: { dataDir: string; olderThanMs: number; signal: AbortSignal },
): Promise<number> {
  let removed = 0;
  for await (const folder of ownFolders(dataDir)) {
    signal.throwIfAborted();
    if ((await wasBorn(folder)) || !(await isQuiet(folder, olderThanMs))) continue;
    const unborn = await identify(dataDir, folder);
    if (unborn !== null && (await removeUnborn(db, unborn))) removed += 1;
  }
  return removed;
}

/** Refs are written once there are any: a database that was restored may have forgotten a repository. */
async function wasBorn(folder: string): Promise<boolean> {
  return await access(join(folder, 'packed-refs')).then(
    () => true,
    () => false,
  );
}

const UPLOAD = /^(?:tmp_objdir-)?incoming-/;

async function hasUpload(folder: string): Promise<boolean> {
  const names = await readdir(join(folder, 'objects')).catch(() => []);
  return names.some((name) => UPLOAD.test(name));
}

async function isQuiet(folder: string, ms: number): Promise<boolean> {
  for (const part of ['.', 'objects', 'objects/pack']) {
    const found = await stat(join(folder, part)).catch(() => undefined);
    if (found !== undefined && Date.now() - found.mtimeMs <= ms) return false;
  }
  return true;
}

/** Whose folder it says it is; null: it is in another place than that one's. */
async function identify(dataDir: string, folder: string): Promise<Unborn | null> {
  const description = await readFile(join(folder, 'description'), 'utf8').catch(() => '');
  const repoId = description.trimEnd();
  const objectFormat = folder.endsWith('.sha256.git') ? 'sha256' : 'sha1';
  return repoFolder(dataDir, repoId, objectFormat) === folder ? { repoId, objectFormat, folder } : null;
}
