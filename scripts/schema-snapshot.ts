// Writes migrations/schema.sql from the migrations; with --verify, only says whether it is up to date.
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { renderSchema } from './render-schema.ts';
import { withMigratedDatabase } from './with-migrated-database.ts';

const OUT_FILE = 'migrations/schema.sql';

const path = join(import.meta.dirname, '..', OUT_FILE);
const schema = await withMigratedDatabase((_, db) => renderSchema(db));
if (!process.argv.includes('--verify')) {
  await writeFile(path, schema);
} else if (schema !== (await readFile(path, 'utf8').catch(() => ''))) {
  console.error(`${OUT_FILE} differs from the migrations. Run npm run codegen and commit the result.`);
  process.exitCode = 1;
}
