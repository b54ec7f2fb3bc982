import { execFile } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { promisify } from 'node:util';

const REMOVE_MS_MAX = 10 * 60_000;

/**
 * Removes a folder and all in it, also what a command made unreadable or nested so deeply that no path is long enough to
 * name it. Links are not followed.
 */
export async function removeFolder(folder: string): Promise<void> {
  try {
    await rm(folder, { recursive: true, force: true });
  } catch {
    // Unlike Node, these go from folder to folder and never name a whole path. What could not be opened up, `rm` reports.
    await run('chmod', ['-R', 'u+rwX', '--', folder]).catch(() => undefined);
    await run('rm', ['-rf', '--', folder]);
  }
}

async function run(program: string, args: readonly string[]): Promise<void> {
  await promisify(execFile)(program, args, { timeout: REMOVE_MS_MAX });
}
