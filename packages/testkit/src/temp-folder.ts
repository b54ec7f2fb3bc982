import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach } from 'vitest';

/** A new folder that only this user can enter; removed when disposed. */
export function makeTempFolder(): Disposable & { readonly path: string } {
  const path = mkdtempSync(join(tmpdir(), 'sluice-test-'));
  return {
    path,
    [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 }),
  };
}

/** An empty folder for each test of the calling file, removed after it. */
export function useTempFolder(): { readonly path: string } {
  let folder: ReturnType<typeof makeTempFolder> | undefined;
  beforeEach(() => {
    folder = makeTempFolder();
  });
  afterEach(() => folder?.[Symbol.dispose]());
  return {
    get path() {
      if (folder === undefined)
        throw new Error('The temporary folder exists inside tests and beforeEach only.');
      return folder.path;
    },
  };
}
