import { enableCompileCache, flushCompileCache } from 'node:module';
import { join } from 'node:path';

const FOLDER = join(import.meta.dirname, '../../../node_modules/.cache/sluice');

/**
 * Loads a program with what an earlier start has compiled of it: a quarter of the processor time of a start would go into
 * compiling. Written once the program is loaded, since one that is killed writes nothing. No cache is no error.
 */
export async function withCompileCache(load: () => Promise<unknown>): Promise<void> {
  enableCompileCache(FOLDER);
  await load();
  flushCompileCache();
}
