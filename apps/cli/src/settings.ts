import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CommandError } from './command-error.ts';

/** In angle brackets, so that it is not taken for a credential and hidden. */
const EXAMPLE = 'postgres://<user>:<password>@<host>:5432/<database>';

export const PROJECT_ROOT = join(import.meta.dirname, '../../..');

/** `DATABASE_URL`, or, when it is unset, what the local start wrote to `local.json` in its data folder. */
export async function readDatabaseUrl(
  env: Readonly<Record<string, string | undefined>>,
  root = PROJECT_ROOT,
): Promise<string> {
  const url = env['DATABASE_URL'] ?? '';
  if (url !== '') return checked(url, 'DATABASE_URL');
  const file = join(readDataFolder(env, root), 'local.json');
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch {
    throw new CommandError(
      `expected DATABASE_URL, or a running local start (${file}), got neither`,
      `Set DATABASE_URL, such as ${EXAMPLE}, or start everything here with npm start.`,
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
    `Set DATABASE_URL, such as ${EXAMPLE}.`,
  );
}

/** The pusher's data folder: `SLUICE_DATA_DIR`, or that of the local start. */
export function readDataFolder(
  env: Readonly<Record<string, string | undefined>>,
  root = PROJECT_ROOT,
): string {
  return env['SLUICE_DATA_DIR'] || join(root, '.sluice');
}

/** The most effects of one push, as the pusher reads it. */
export function readEffectsPerPush(env: Readonly<Record<string, string | undefined>>): number {
  const text = env['SLUICE_EFFECTS_PER_PUSH'] ?? '';
  if (text === '') return 1000;
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text);
  throw new CommandError(
    `SLUICE_EFFECTS_PER_PUSH: expected a whole number, got ${JSON.stringify(text.slice(0, 60))}`,
    'Set it as for the pusher, such as SLUICE_EFFECTS_PER_PUSH=1000, or leave it unset.',
  );
}
