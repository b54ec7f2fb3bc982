import { join } from 'node:path';
import {
  adoptedAs,
  createHookLog,
  openAdopted,
  requireGit,
  writeAdoptedConfig,
  type AdoptedRepository,
} from '@sluice/pusher/adopted';
import { isServedName, SERVED_NAME } from '@sluice/effect-spec';
import { readRepo } from '@sluice/ref-store';
import { CommandError } from '../command-error.ts';
import { Progress } from '../progress.ts';
import { assertRepoId } from '../repo-commands.ts';
import { PROJECT_ROOT } from '../settings.ts';
import type { Terminal } from '../terminal.ts';
import { assertNoOtherHook, markAdopted, removeHookFiles, turnOn, writeHookFiles } from './hook-files.ts';
import { importRefs, type Imported } from './import-refs.ts';
import { assertAdoptable, findRepository, readDiskRefs, type BareRepository } from './inspect-repository.ts';
import { assertPlaceIsFree, linkToPlace } from './serve-repository.ts';
import { readSettings, sharedSettings } from './settings-of-hook.ts';
import { sync } from './sync-repository.ts';

export interface InstallOptions {
  repo: string;
  /** Who may change what is below `refs/meta/`; nobody named: whoever may push. */
  admin?: readonly string[];
  /** The environment variable of the server's that says who pushes. */
  pusherFrom?: string;
  replace?: true;
}

/** `sluice hook install`: takes the pushes to a bare repository over. Again: brings its hooks and settings up to date. */
export async function installHook(terminal: Terminal, path: string, options: InstallOptions): Promise<void> {
  const progress = new Progress(terminal);
  try {
    const lines = await install(terminal, path, { ...options, progress });
    progress.clear();
    terminal.stdout.write(lines.join(''));
  } finally {
    progress.clear();
  }
}

/** Returns what was done, for people. Says how far it is: of many refs, each of the longer steps takes a while. */
async function install(
  terminal: Terminal,
  path: string,
  { progress, ...options }: InstallOptions & { progress: Progress },
): Promise<string[]> {
  const { repo: repoId, admin: admins = [] } = options;
  const lines: string[] = [];
  progress.show(`looking at the refs of ${path}`);
  assertRepoId(repoId);
  const repository = await findRepository(terminal, path);
  const { folder, objectFormat } = repository;
  await requireGit(folder);
  await assertAdoptable(repository);
  await assertNoOtherHook(repository);
  await readDiskRefs(repository);
  const former = await adoptedAs(folder);
  if (former !== null && former !== repoId) {
    throw new CommandError(
      `expected ${former}, as which ${folder} is adopted, got ${repoId}`,
      'Give --repo that name, or end it first with sluice hook remove.',
    );
  }
  if (former === null && !isServedName(repoId)) {
    throw new CommandError(
      `expected ${SERVED_NAME}, got ${repoId}, which no dispatcher could fetch from`,
      'Choose another name with --repo, such as acme/api.',
    );
  }
  const shared = sharedSettings(terminal);
  const settings = await readSettings({ ...terminal.env, ...Object.fromEntries(shared) });
  const place = { dataDir: settings.dataDir, repoId, objectFormat, folder };
  await assertPlaceIsFree(place);
  progress.show('waiting for the database');
  await using adopted = await openAdopted({ repoId, folder }, settings, createHookLog(folder));

  progress.show(`taking the refs of ${path} over`);
  await writeHookFiles(repository, {
    program: join(PROJECT_ROOT, 'apps/cli/bin/sluice'),
    settings: [...shared, ...(admins.length === 0 ? [] : ([['SLUICE_ADMINS', admins.join(',')]] as const))],
    pusherFrom: options.pusherFrom ?? null,
  });
  try {
    await writeAdoptedConfig(adopted);
    await turnOn(repository);
    const state = await readRepo(adopted.db, repoId);
    const isKnown = former !== null && state !== undefined && state.opSeq > 0n;
    if (!isKnown || options.replace === true) {
      const imported = await adopt(repository, adopted, { mayReplace: options.replace === true });
      lines.push(describe(imported, { folder, repoId }));
    }
    await markAdopted(repository, repoId);
    progress.show(`writing the refs of ${path}`);
    lines.push(await sync(repository, adopted));
    await linkToPlace(place);
  } catch (error) {
    if (former === null) await removeHookFiles(repository);
    throw error;
  }
  lines.push(
    admins.length === 0
      ? 'whoever may push there may define effects as well; --admin <name> would leave that to those named\n'
      : `${admins.join(', ')} may define effects\n`,
  );
  return lines;
}

async function adopt(
  repository: BareRepository,
  adopted: AdoptedRepository,
  { mayReplace }: { mayReplace: boolean },
): Promise<Imported> {
  const { folder, git, objectFormat } = repository;
  await git.must(['--git-dir', folder, 'pack-refs', '--all', '--prune']);
  return await importRefs(adopted.db, {
    ...(await readDiskRefs(repository)),
    repoId: adopted.repoId,
    objectFormat,
    folder,
    signer: `user:${adopted.settings.pusher}`,
    key: adopted.key,
    mayReplace,
  });
}

function describe(
  { pushId, refs }: Imported,
  { folder, repoId }: { folder: string; repoId: string },
): string {
  const what = refs === 0 ? 'it has no refs yet' : 'its refs were known already';
  return `${folder} is ${repoId}: ${pushId === null ? what : `push ${pushId} has its refs`}\n`;
}
