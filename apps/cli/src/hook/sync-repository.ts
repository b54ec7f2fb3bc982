import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import {
  ADOPTED,
  adoptedAs,
  createHookLog,
  openAdopted,
  refreshAdopted,
  type AdoptedRepository,
} from '@sluice/pusher/adopted';
import { CommandError } from '../command-error.ts';
import { printableLine, type Terminal } from '../terminal.ts';
import { findRepository, readHead, type BareRepository } from './inspect-repository.ts';
import { environmentOfHook, readSettings } from './settings-of-hook.ts';

/** `sluice hook sync`: makes the refs on disk those of the database and says which were not. */
export async function syncRepository(terminal: Terminal, path: string): Promise<void> {
  const repository = await findRepository(terminal, path);
  await using adopted = await openByFolder(terminal, repository);
  terminal.stdout.write(await sync(repository, adopted));
}

/** Opens the database of an adopted repository with the settings that its hook has. */
export async function openByFolder(
  terminal: Terminal,
  { folder }: BareRepository,
): Promise<AdoptedRepository> {
  const repoId = await adoptedAs(folder);
  if (repoId === null) {
    throw new CommandError(
      `expected a repository with Sluice's hook, got ${folder}`,
      'sluice hook install installs it.',
    );
  }
  const settings = await readSettings(await environmentOfHook(folder, terminal.env));
  return await openAdopted({ repoId, folder }, settings, createHookLog(folder));
}

/** Returns what was changed, for people. */
export async function sync(repository: BareRepository, adopted: AdoptedRepository): Promise<string> {
  const { db, repoId, folder } = adopted;
  const before = await listRefs(repository);
  await db
    .updateTable('repo')
    .set({ head_ref: await readHead(repository) })
    .where('repo_id', '=', repoId)
    .execute();
  await refreshAdopted(adopted);
  await sweepNotes(folder);
  const after = await listRefs(repository);
  const changed = [...new Set([...before.keys(), ...after.keys()])].filter(
    (name) => before.get(name) !== after.get(name),
  );
  const lines = changed.map(
    (name) =>
      `${printableLine(name)}: ${before.get(name) ?? 'nothing'} became ${after.get(name) ?? 'nothing'}`,
  );
  const count = `${after.size} ref${after.size === 1 ? '' : 's'}`;
  return [...lines, `${repoId}: ${count} on disk, as in the database`, ''].join('\n');
}

async function listRefs({ folder, git }: BareRepository): Promise<Map<string, string>> {
  const text = await git.must(['--git-dir', folder, 'for-each-ref', '--format=%(objectname) %(refname)']);
  const lines = text.split('\n').filter((line) => line !== '');
  return new Map(lines.map((line) => [line.slice(line.indexOf(' ') + 1), line.slice(0, line.indexOf(' '))]));
}

const HOUR_MS = 60 * 60 * 1000;

/** Notes of pushes whose git was killed between its two hooks. */
async function sweepNotes(folder: string): Promise<void> {
  const pushes = join(folder, ADOPTED.pushes);
  for (const name of await readdir(pushes)) {
    const found = await stat(join(pushes, name)).catch(() => undefined);
    if (found !== undefined && Date.now() - found.mtimeMs > HOUR_MS)
      await rm(join(pushes, name), { force: true });
  }
}
