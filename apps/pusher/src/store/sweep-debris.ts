import { lstat, readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';

/** What a process that was killed leaves in a repository, by folder. Nothing that was accepted is among it. */
const DEBRIS: readonly (readonly [folder: string, names: RegExp])[] = [
  // Files of this program that were not finished, and locks of git's.
  ['.', /\.sluice-new$|\.lock$/],
  ['with-results', /\.sluice-new$|\.lock$/],
  // Quarantine of pushes: git moves their objects before anything is committed.
  ['objects', /^(?:tmp_objdir-)?incoming-/],
  // Half a pack, of an upload or of a repack.
  ['objects/pack', /^\.?tmp[-_]|\.lock$/],
  ['objects/info', /\.lock$|^tmp_/],
  ['objects/info/commit-graphs', /\.lock$|^tmp_graph_/],
];

/** Folders of loose objects, and half of one. */
const LOOSE = /^[0-9a-f]{2}$/;
const HALF_LOOSE = /^tmp_obj_/;
/** Says that a push or a fetch holds a pack, and is left when that is killed. What an operator wrote stays. */
const HOLD = /\.keep$/;
const HOLD_OF_GIT = /^(?:receive|fetch)-pack \d+ on /;
/** Repositories that were not finished; hook scripts that were not. */
const UNFINISHED_REPO = /\.new$/;
const UNFINISHED_HOOKS = /^[0-9a-f]{12}\.\d+$/;

/** Removes from one repository what is left of processes that are gone and is older than `olderThanMs`; returns how much. */
export async function sweepRepo(folder: string, olderThanMs: number): Promise<number> {
  let removed = 0;
  for (const [name, debris] of DEBRIS) removed += await sweep(join(folder, name), debris, olderThanMs);
  for (const name of (await entries(join(folder, 'objects'))).filter((entry) => LOOSE.test(entry)))
    removed += await sweep(join(folder, 'objects', name), HALF_LOOSE, olderThanMs);
  const isOfGit = async (path: string): Promise<boolean> =>
    HOLD_OF_GIT.test(await readFile(path, 'utf8').catch(() => ''));
  return removed + (await sweep(join(folder, 'objects/pack'), HOLD, olderThanMs, isOfGit));
}

/** The same for everything in the data folder, what is in no repository yet included. Other people's repositories are theirs to sweep. */
export async function sweepDebris(
  dataDir: string,
  olderThanMs: number,
  signal: AbortSignal,
): Promise<number> {
  let removed = await sweep(join(dataDir, 'hooks'), UNFINISHED_HOOKS, olderThanMs);
  const root = join(dataDir, 'repos');
  for (const shard of await entries(root))
    removed += await sweep(join(root, shard), UNFINISHED_REPO, olderThanMs);
  for await (const folder of ownFolders(dataDir)) {
    signal.throwIfAborted();
    removed += await sweepRepo(folder, olderThanMs);
  }
  return removed;
}

/** The folders of all repositories that are in the data folder itself. */
export async function* ownFolders(dataDir: string): AsyncGenerator<string, void, undefined> {
  const root = join(dataDir, 'repos');
  for (const shard of await entries(root)) {
    for (const name of await entries(join(root, shard))) {
      const folder = join(root, shard, name);
      if (await isOwn(folder)) yield folder;
    }
  }
}

/** Whether a repository's folder is in the data folder itself, and not a link to where somebody else keeps it. */
export async function isOwn(folder: string): Promise<boolean> {
  const found = await lstat(folder).catch(() => undefined);
  return found?.isDirectory() === true;
}

async function sweep(
  folder: string,
  debris: RegExp,
  olderThanMs: number,
  isDebris: (path: string) => Promise<boolean> = () => Promise.resolve(true),
): Promise<number> {
  let removed = 0;
  for (const name of await entries(folder)) {
    const path = join(folder, name);
    if (!debris.test(name) || !(await isOlder(path, olderThanMs)) || !(await isDebris(path))) continue;
    await rm(path, { recursive: true, force: true });
    removed += 1;
  }
  return removed;
}

async function entries(folder: string): Promise<string[]> {
  return await readdir(folder).catch(() => []);
}

async function isOlder(path: string, ms: number): Promise<boolean> {
  const found = await stat(path).catch(() => undefined);
  return found !== undefined && Date.now() - found.mtimeMs > ms;
}
