import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The text of a file of an installed package. */
export function readPackageFile(packageName: string, file: string): string {
  const main = fileURLToPath(import.meta.resolve(packageName));
  const marker = join('node_modules', packageName);
  const root = main.slice(0, main.lastIndexOf(marker) + marker.length);
  return readFileSync(join(root === '' ? dirname(main) : root, file), 'utf8');
}

/** Throws unless exactly this version is measured: its settings are known to be the best of that version. */
export function assertVersion(packageName: string, expected: string): void {
  const { version } = JSON.parse(readPackageFile(packageName, 'package.json')) as { version: string };
  if (version !== expected) throw new Error(`${packageName}: expected version ${expected}, got ${version}`);
}
