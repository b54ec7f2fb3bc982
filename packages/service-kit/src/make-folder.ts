import { access, constants, mkdir } from 'node:fs/promises';
import { SettingsError } from './settings-error.ts';

/**
 * Makes the folder that a setting names, and those above it, for this user alone; leaves alone what is there. Throws a
 * {@link SettingsError} if nothing can be kept in it.
 */
export async function makeFolder(setting: string, path: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true, mode: 0o700 });
    await access(path, constants.W_OK | constants.X_OK);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new SettingsError([
      {
        name: setting,
        message: `expected a folder that this user may write to, got ${path} (${code ?? message}). Make it and give it to the user that runs this, or name another`,
      },
    ]);
  }
}
