import { randomUUID } from 'node:crypto';
import { lstat, mkdir, open, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { ObjectFormat } from '@sluice/ref-store';
import { HttpError } from '../http-error.ts';
import { adoptedAs } from './adopted-folder.ts';
import { replaceFile } from './replace-file.ts';

/**
 * Whether there is a folder that the pusher made, or a link to one that says itself that it was adopted as this
 * repository. No other link is followed, and no file.
 */
async function isRepoFolder(folder: string, repoId: string): Promise<boolean> {
  const found = await lstat(folder).catch(() => undefined);
  if (found?.isSymbolicLink() !== true) return found?.isDirectory() === true;
  if ((await adoptedAs(folder)) === repoId) return true;
  throw new HttpError(
    410,
    `${repoId} was kept in a repository that is Sluice's no more: install its hook there again`,
  );
}

/** Makes an empty bare repository, whole or not at all, and durable; does nothing if it is there already. */
export async function ensureRepoFolder(
  folder: string,
  repoId: string,
  objectFormat: ObjectFormat,
): Promise<void> {
  if (await isRepoFolder(folder, repoId)) return;
  const temporary = `${folder}.${randomUUID()}.new`;
  try {
    for (const part of ['objects/info', 'objects/pack', 'refs/heads', 'refs/tags']) {
      await mkdir(join(temporary, part), { recursive: true });
    }
    const flush = { flush: true };
    await writeFile(join(temporary, 'HEAD'), 'ref: refs/heads/main\n', flush);
    await writeFile(join(temporary, 'config'), CONFIG[objectFormat], flush);
    await writeFile(join(temporary, 'description'), `${repoId}\n`, flush);
    for (const part of ['objects', 'refs', '.']) await syncFolder(join(temporary, part));
    await rename(temporary, folder);
    // The folder that it is in may be new as well.
    await syncFolder(dirname(folder));
    await syncFolder(dirname(dirname(folder)));
  } catch (error) {
    await rm(temporary, { recursive: true, force: true });
    // Another push made it meanwhile.
    if (!(await isRepoFolder(folder, repoId))) throw error;
  }
}

/** Makes what git takes for a repository, without a place for objects; does nothing if it is there already. */
export async function ensureRefsFolder(gitDir: string, objectFormat: ObjectFormat): Promise<void> {
  const config = join(gitDir, 'config');
  if ((await readFile(config, 'utf8').catch(() => '')) === CONFIG[objectFormat]) return;
  await mkdir(join(gitDir, 'refs'), { recursive: true });
  await replaceFile(config, CONFIG[objectFormat]);
}

/** Makes a rename or a new entry in the folder durable. */
export async function syncFolder(folder: string): Promise<void> {
  await using handle = await open(folder, 'r');
  await handle.sync();
}

// Neither results nor the newest pushes are sure to be among the refs on disk: whoever collects garbage by hand must not
// take away what those name.
const GC = '[gc]\n\tauto = 0\n\tpruneExpire = never\n';

const CONFIG = {
  sha1: `[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n${GC}`,
  sha256: `[core]\n\trepositoryformatversion = 1\n\tfilemode = true\n\tbare = true\n[extensions]\n\tobjectformat = sha256\n${GC}`,
};
