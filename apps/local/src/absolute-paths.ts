import { join, resolve } from 'node:path';
import { PROJECT_ROOT } from './project-root.ts';

/** Settings that name a place, as every program that is started with them has to see them. */
interface AbsolutePaths {
  SLUICE_DATA_DIR: string;
  SLUICE_KEY_FILE?: string;
}

/** The services start in folders of their own, where a relative path would mean another place to each of them. */
export function absolutePaths(env: NodeJS.ProcessEnv): AbsolutePaths {
  const { SLUICE_DATA_DIR: dataDir, SLUICE_KEY_FILE: keyFile } = env;
  return {
    SLUICE_DATA_DIR: resolve(dataDir || join(PROJECT_ROOT, '.sluice')),
    ...(keyFile ? { SLUICE_KEY_FILE: resolve(keyFile) } : {}),
  };
}
