import { accessSync, constants } from 'node:fs';
import { isAbsolute, join } from 'node:path';

/** Absolute path of a program on this process's own PATH; undefined if there is none. */
export function findProgram(name: string): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(':').filter(isAbsolute);
  return folders.map((folder) => join(folder, name)).find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
