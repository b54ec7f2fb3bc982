import { lstat, mkdir, readlink, rename, symlink, unlink } from 'node:fs/promises';
import { dirname } from 'node:path';
import { adoptedAs } from '@sluice/pusher/adopted';
import { repoFolder } from '@sluice/ref-store';
import { CommandError } from '../command-error.ts';
import type { BareRepository } from './inspect-repository.ts';

/** Where a pusher looks for a repository. */
export interface Place extends Pick<BareRepository, 'folder' | 'objectFormat'> {
  dataDir: string;
  repoId: string;
}

/** Fails if a pusher with this data folder has another repository of that name. */
export async function assertPlaceIsFree({ dataDir, repoId, objectFormat, folder }: Place): Promise<void> {
  const path = repoFolder(dataDir, repoId, objectFormat);
  const found = await lstat(path).catch(() => undefined);
  if (found === undefined) return;
  if (!found.isSymbolicLink()) {
    throw new CommandError(
      `expected no repository ${repoId} in ${dataDir}, got one that was pushed to the pusher: ${path}`,
      'Choose another name with --repo.',
    );
  }
  const target = await readlink(path);
  if (target === folder || (await adoptedAs(target)) !== repoId) return;
  throw new CommandError(
    `expected ${repoId} to be adopted nowhere else, got ${target}`,
    'Choose another name with --repo, or end that with sluice hook remove.',
  );
}

/** Lets a pusher with this data folder serve an adopted repository, which is how dispatchers reach it. */
export async function linkToPlace({ dataDir, repoId, objectFormat, folder }: Place): Promise<void> {
  const path = repoFolder(dataDir, repoId, objectFormat);
  const temporary = `${path}.${process.pid}.new`;
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await unlink(temporary).catch(() => undefined);
  await symlink(folder, temporary);
  await rename(temporary, path);
}
