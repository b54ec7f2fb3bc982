import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';

/** Quarantine of git's; repositories and files that this program had not finished writing. */
const DEBRIS = { objects: /^(?:tmp_objdir-incoming-|incoming-)/, shard: /\.new$/, repo: /\.sluice-new$/ };

/**
 * Removes quarantine folders that pushes left behind whose process was killed, and other half-written things, if older
 * than `olderThanMs`; returns how many. Their objects belong to no accepted push: git moves them before anything is
 * committed.
 */
export async function sweepQuarantine(dataDir: string, olderThanMs: number): Promise<number> {
  let removed = 0;
  const sweep = async (folder: string, debris: RegExp): Promise<void> => {
    for (const name of await entries(folder)) {
      if (!debris.test(name) || !(await isOlder(join(folder, name), olderThanMs))) continue;
      await rm(join(folder, name), { recursive: true, force: true });
      removed += 1;
    }
  };
  const root = join(dataDir, 'repos');
  for (const shard of await entries(root)) {
    await sweep(join(root, shard), DEBRIS.shard);
    for (const repo of await entries(join(root, shard))) {
      await sweep(join(root, shard, repo), DEBRIS.repo);
      await sweep(join(root, shard, repo, 'objects'), DEBRIS.objects);
    }
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
