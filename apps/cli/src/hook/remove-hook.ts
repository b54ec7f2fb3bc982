import { adoptedAs } from '@sluice/pusher/adopted';
import { CommandError } from '../command-error.ts';
import type { Terminal } from '../terminal.ts';
import { hasHookFiles, removeHookFiles } from './hook-files.ts';
import { findRepository } from './inspect-repository.ts';
import { openByFolder, sync } from './sync-repository.ts';

/** `sluice hook remove`: leaves a plain repository whose refs are those of the last push. */
export async function removeHook(
  terminal: Terminal,
  path: string,
  { offline }: { offline: boolean },
): Promise<void> {
  const repository = await findRepository(terminal, path);
  const repoId = await adoptedAs(repository.folder);
  if (repoId === null && !(await hasHookFiles(repository))) {
    throw new CommandError(
      `expected a repository with Sluice's hook, got ${repository.folder}`,
      'There is nothing to remove.',
    );
  }
  if (!offline && repoId !== null) {
    await using adopted = await openByFolder(terminal, repository);
    terminal.stdout.write(await sync(repository, adopted));
  }
  await removeHookFiles(repository);
  terminal.stdout.write(`${repository.folder} is a plain repository again\n`);
}
