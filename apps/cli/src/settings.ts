import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CommandError } from './command-error.ts';

const PROJECT_ROOT = join(import.meta.dirname, '../../..');

/** `DATABASE_URL`, or, when it is unset, what the local start wrote to `local.json` in its data folder. */
export async function readDatabaseUrl(
  env: Readonly<Record<string, string | undefined>>,
  root = PROJECT_ROOT,
): Promise<string> {
  const url = env['DATABASE_URL'] ?? '';
  if (url !== '') return checked(url, 'DATABASE_URL');
  const dataDir = env['SLUICE_DATA_DIR'] || join(root, '.sluice');
  const file = join(dataDir, 'local.json');
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch {
    throw new CommandError(
      `expected DATABASE_URL, or a running local start (${file}), got neither`,
      'Set DATABASE_URL=postgres://user:password@host:5432/database, or start everything here with npm start.',
    );
  }
  return checked(databaseUrlOf(text), file);
}

function databaseUrlOf(text: string): string {
  try {
    const value: unknown = JSON.parse(text);
    const found =
      typeof value === 'object' && value !== null && 'databaseUrl' in value ? value.databaseUrl : '';
    return typeof found === 'string' ? found : '';
  } catch {
    return '';
  }
}

function checked(url: string, where: string): string {
  if (['postgres:', 'postgresql:'].includes(URL.parse(url)?.protocol ?? '')) return url;
  throw new CommandError(
    `${where}: expected a URL that starts with postgres://, got something else`,
    'Set DATABASE_URL=postgres://user:password@host:5432/database.',
  );
}
