import { spawn } from 'node:child_process';
import { join, resolve } from 'node:path';
import { SluiceError } from '@sluice/db';
import { ADOPTED, readHookSettings, type HookSettings } from '@sluice/pusher/adopted';
import { CommandError } from '../command-error.ts';
import { readDatabaseUrl, readDataFolder } from '../settings.ts';
import type { Terminal } from '../terminal.ts';

type Env = Terminal['env'];

/** Settings of the pusher's that its hook in an adopted repository needs as well. */
const SHARED = [
  'DATABASE_URL',
  'SLUICE_SCHEMA',
  'SLUICE_POOLER',
  'SLUICE_KEY_FILE',
  'SLUICE_REFS_PER_PUSH',
  'SLUICE_REFS_PER_REPO',
  'SLUICE_EFFECTS_PER_PUSH',
  'SLUICE_DATABASE_WAIT_MS',
  'SLUICE_GIT_MEMORY_BYTES',
] as const;

/** Those of them that are set, with paths that hold anywhere: what a hook is to start with. */
export function sharedSettings({ env, cwd }: Terminal): [string, string][] {
  const shared = SHARED.flatMap((name): [string, string][] => {
    const value = env[name] ?? '';
    if (value === '') return [];
    return [[name, name === 'SLUICE_KEY_FILE' ? resolve(cwd, value) : value]];
  });
  return [...shared, ['SLUICE_DATA_DIR', resolve(cwd, readDataFolder(env))]];
}

/** Reads the settings in an environment, with the address of a local start's database where none is named. */
export async function readSettings(env: Env): Promise<HookSettings> {
  return readHookSettings(await withDatabaseUrl(env));
}

async function withDatabaseUrl(env: Env): Promise<Env> {
  return { ...env, DATABASE_URL: await readDatabaseUrl(env) };
}

/** The same for the hook, which has only one line to say what is wrong. */
export async function settingsForPush(env: Env): Promise<Env> {
  try {
    return await withDatabaseUrl(env);
  } catch (error) {
    if (error instanceof CommandError)
      throw new SluiceError('invalid_settings', `${error.message}.`, { next: error.next });
    throw error;
  }
}

/** The environment that the hook of an adopted repository has: the shell says what its settings mean. */
export async function environmentOfHook(folder: string, env: Env): Promise<Env> {
  const shell = spawn('sh', ['-c', 'set -a; . "$1"; exec env -0', 'sh', join(folder, ADOPTED.settings)], {
    env: { ...env },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const exited = new Promise<number | null>((done, fail) => {
    shell.once('error', fail);
    shell.once('close', done);
  });
  let text = '';
  for await (const chunk of shell.stdout.setEncoding('utf8') as AsyncIterable<string>) text += chunk;
  if ((await exited) !== 0) {
    throw new CommandError(
      `the settings in ${join(folder, ADOPTED.settings)} cannot be read`,
      'Install the hook again with sluice hook install.',
    );
  }
  return Object.fromEntries(
    text
      .split('\0')
      .filter((entry) => entry !== '')
      .map((entry) => [entry.slice(0, entry.indexOf('=')), entry.slice(entry.indexOf('=') + 1)]),
  );
}
