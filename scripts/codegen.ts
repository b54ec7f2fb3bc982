// Writes packages/db/src/tables.generated.ts from the migrations; with --verify, only says whether it is up to date.
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { withMigratedDatabase } from './with-migrated-database.ts';

const OUT_FILE = 'packages/db/src/tables.generated.ts';

const isVerify = process.argv.includes('--verify');
process.exitCode = await withMigratedDatabase((url) => Promise.resolve(runCodegen(url)));
if (process.exitCode !== 0 && isVerify) {
  console.error(`${OUT_FILE} differs from the migrations. Run npm run codegen and commit the result.`);
}

function runCodegen(url: string): number {
  const manifest = createRequire(import.meta.url).resolve('kysely-codegen/package.json');
  const { status } = spawnSync(
    process.execPath,
    [
      join(dirname(manifest), 'dist', 'cli', 'bin.js'),
      `--url=${url}`,
      '--dialect=postgres',
      '--default-schema=sluice',
      '--include-pattern=sluice.*',
      '--exclude-pattern=*.kysely_*',
      '--type-mapping={"int8":"bigint"}',
      `--out-file=${OUT_FILE}`,
      ...(isVerify ? ['--verify'] : []),
    ],
    { cwd: join(import.meta.dirname, '..'), stdio: 'inherit' },
  );
  return status ?? 1;
}
