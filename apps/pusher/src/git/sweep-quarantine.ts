import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';

const DEBRIS = /^(?:tmp_objdir-incoming-|incoming-)/;

/**
 * Removes quarantine folders that pushes left behind whose process was killed, if older than `olderThanMs`; returns
 * how many. Their objects belong to no accepted push: git moves them before anything is committed.
 */
export async function sweepQuarantine(dataDir: string, olderThanMs: number): Promise<number> {
  let removed = 0;
  const root = join(dataDir, 'repos');
  for (const shard of await entries(root)) {
    for (const repo of await entries(join(root, shard))) {
      const objects = join(root, shard, repo, 'objects');
      for (const name of await entries(objects)) {
        if (DEBRIS.test(name) && (await isOlder(join(objects, name), olderThanMs))) {
          await rm(join(objects, name), { recursive: true, force: true });
          removed += 1;
        }
      }
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
