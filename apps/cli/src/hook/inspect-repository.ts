import { readdir, realpath, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { checkRefName, type ObjectFormat } from '@sluice/ref-store';
import { CommandError } from '../command-error.ts';
import { createGit, OUTPUT_BYTES_MAX, reason, type Git } from '../git.ts';
import { printableLine, type Terminal } from '../terminal.ts';

/** A bare repository on this machine. */
export interface BareRepository {
  /** Without links. */
  readonly folder: string;
  readonly git: Git;
  readonly objectFormat: ObjectFormat;
  readonly hooksFolder: string;
}

/** What a bare repository's refs are now. */
export interface DiskRefs {
  /** The default branch; it need not exist. */
  readonly head: string;
  readonly refs: ReadonlyMap<string, string>;
}

/** Answered in this order, each on a line of its own; a path may have line breaks in it. */
const ABOUT = ['--is-bare-repository', '--show-object-format', '--git-path', 'hooks'];

/** Finds a bare repository by its path. */
export async function findRepository(terminal: Terminal, path: string): Promise<BareRepository> {
  const folder = await findFolder(terminal, path);
  const git = createGit(folder, terminal.env);
  const { code, stdout } = await git.run(['--git-dir', folder, 'rev-parse', ...ABOUT]);
  const [isBare, format, ...hooksPath] = stdout.toString('utf8').replace(/\n$/, '').split('\n');
  if (code !== 0) {
    throw new CommandError(
      `expected the folder of a bare repository, got ${folder}, in which git finds none`,
      'Name the folder that has HEAD, objects and refs in it; a clone to work in is adopted where it was cloned from.',
    );
  }
  if (isBare !== 'true') {
    throw new CommandError(
      `expected a bare repository, got one with a work tree: ${folder}`,
      'Name a repository that git init --bare or git clone --bare made.',
    );
  }
  const hooks = resolve(folder, hooksPath.join('\n'));
  return {
    folder,
    git,
    objectFormat: format === 'sha256' ? 'sha256' : 'sha1',
    hooksFolder: await realpath(hooks).catch(() => hooks),
  };
}

/** Fails, with what to do, unless Sluice can take over the pushes to a repository. */
export async function assertAdoptable({ folder, git, hooksFolder }: BareRepository): Promise<void> {
  const { stdout } = await git.run(['--git-dir', folder, 'config', 'extensions.refStorage']);
  const storage = printableLine(stdout.toString('utf8'));
  if (storage !== '' && storage !== 'files') {
    throw new CommandError(
      `expected refs in files, got ${storage}`,
      'git refs migrate --ref-format=files changes it.',
    );
  }
  if ((await readdir(join(folder, 'worktrees')).catch(() => [])).length > 0) {
    throw new CommandError(
      `expected a repository that changes by pushes alone, got one with linked work trees: ${folder}`,
      'Remove them with git worktree remove: what is committed in one would not pass through Sluice.',
    );
  }
  if (!hooksFolder.startsWith(`${folder}/`)) {
    throw new CommandError(
      `expected hooks inside ${folder}, got ${hooksFolder}`,
      'Give the repository a hooks folder of its own: other repositories may share that one (git config core.hooksPath).',
    );
  }
}

async function findFolder({ cwd }: Terminal, path: string): Promise<string> {
  const folder = await realpath(resolve(cwd, path)).catch(() => undefined);
  const found = folder === undefined ? undefined : await stat(folder);
  if (folder === undefined || found?.isDirectory() !== true) {
    throw new CommandError(
      `expected the folder of a bare repository, got none at ${printableLine(path)}`,
      'Run it on the machine that has the repository, with its path there.',
    );
  }
  const uid = process.getuid?.();
  if (uid !== undefined && found.uid !== uid) {
    throw new CommandError(
      `expected to run as the owner of ${folder} (user id ${found.uid}), got user id ${uid}`,
      `Run it as the account that git runs as for pushes: sudo -u '#${found.uid}' sluice hook …`,
    );
  }
  return folder;
}

/** Reads HEAD, which must name a branch. */
export async function readHead({ folder, git }: BareRepository): Promise<string> {
  const { code, stdout } = await git.run(['--git-dir', folder, 'symbolic-ref', '--quiet', 'HEAD']);
  if (code === 0) return stdout.toString('utf8').trim();
  throw new CommandError(
    'expected HEAD to name a branch, got a commit',
    `git --git-dir ${folder} symbolic-ref HEAD refs/heads/main`,
  );
}

/** Reads refs and HEAD from disk, and fails if there is one that Sluice could not keep. */
export async function readDiskRefs(repository: BareRepository): Promise<DiskRefs> {
  const { folder, git } = repository;
  const listed = await git.run([
    '--git-dir',
    folder,
    'for-each-ref',
    // The type is asked for so that git looks whether the object is there.
    '--format=%(objectname) %(objecttype) %(symref) %(refname)',
  ]);
  if (listed.isTooLong) {
    throw new CommandError(
      `expected refs whose list is at most ${OUTPUT_BYTES_MAX / 1024 ** 2} MiB long, which is some 300,000, got more`,
      'Delete the ones that nobody needs (git for-each-ref lists them, git update-ref --stdin deletes many), then run it again.',
    );
  }
  if (listed.code !== 0 || listed.stderr !== '') {
    throw new CommandError(
      `git finds fault with the refs: ${reason(listed.stderr)}`,
      'Repair or delete what it names (git fsck, git update-ref -d), then run it again.',
    );
  }
  const refs = new Map<string, string>();
  for (const line of linesOf(listed.stdout)) {
    const [, oid = '', target = '', name = ''] =
      /^([0-9a-f]+) \S+ (\S*) (.+)$/.exec(line.toString('latin1')) ?? [];
    assertKeepable(Buffer.from(name, 'latin1'), { isSymbolic: target !== '' });
    refs.set(Buffer.from(name, 'latin1').toString('utf8'), oid);
  }
  return { head: await readHead(repository), refs };
}

function assertKeepable(name: Buffer, { isSymbolic }: { isSymbolic: boolean }): void {
  const shown = printableLine(name.toString('utf8'));
  const fault = checkRefName(name);
  if (fault !== null) {
    throw new CommandError(
      `${shown}: the name ${fault}`,
      'Rename or delete the ref, then run it again: Sluice takes no such name in a push either.',
    );
  }
  if (isSymbolic) {
    throw new CommandError(
      `expected refs that name objects, got ${shown}, which names another ref`,
      `git symbolic-ref --delete ${shown}`,
    );
  }
}

function linesOf(bytes: Buffer): Buffer[] {
  const lines: Buffer[] = [];
  for (let at = 0; at < bytes.length;) {
    const end = bytes.indexOf(0x0a, at);
    lines.push(bytes.subarray(at, end === -1 ? bytes.length : end));
    at = (end === -1 ? bytes.length : end) + 1;
  }
  return lines;
}
