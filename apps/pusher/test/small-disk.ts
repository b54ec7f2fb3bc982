import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { vi } from 'vitest';

/** A data folder in which little fits. */
export interface SmallDisk extends Disposable {
  /** Lets that much fit. */
  resize(kilobytes: number): void;
}

/** A file system of its own below the folder; null where this process may not mount one. */
export function mountSmallDisk(folder: string, kilobytes: number): SmallDisk | null {
  mkdirSync(folder, { recursive: true });
  const mount = (options: string): boolean =>
    spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', folder]).status === 0;
  if (!mount(`size=${kilobytes}k`)) return null;
  return {
    resize: (more) => {
      if (!mount(`remount,size=${more}k`)) throw new Error(`${folder} could not be made larger`);
    },
    [Symbol.dispose]: () => void spawnSync('umount', ['--lazy', folder]),
  };
}

/**
 * A limit on the size of every file that `git receive-pack` and its children write. Git meets it as it meets a full disk, with an error of write(2),
 * and no privilege is needed.
 */
export function limitFiles(folder: string, kilobytes: number): SmallDisk {
  const bin = join(folder, 'limited-bin');
  mkdirSync(bin);
  const limit = join(bin, 'kilobytes');
  const resize = (more: number): void => writeFileSync(limit, String(more));
  resize(kilobytes);
  const git = spawnSync('sh', ['-c', 'command -v git'], { encoding: 'utf8' }).stdout.trim();
  writeFileSync(
    join(bin, 'git'),
    `#!/bin/bash\n[ "$1" = receive-pack ] || exec ${git} "$@"\nulimit -f "$(cat ${limit})"\ntrap '' XFSZ\nexec ${git} "$@"\n`,
    { mode: 0o755 },
  );
  vi.stubEnv('PATH', `${bin}:${process.env['PATH']}`);
  return { resize, [Symbol.dispose]: () => void vi.unstubAllEnvs() };
}
