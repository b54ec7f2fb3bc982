import { DEFINITION_FILE, DEFINITION_PREFIX } from '@sluice/effect-spec';
import { CommandError } from './command-error.ts';
import { reason, type Git } from './git.ts';
import { shownRemote } from './without-credentials.ts';

/** A definition's ref on the remote. */
export interface RemoteDefinition {
  readonly name: string;
  readonly oid: string;
}

const DEFINITIONS_MAX = 1000;

/**
 * The definitions a remote has now, or the one called `name`. Reads nothing but the remote's list of refs. With
 * `mayBeNew`, a repository that the server does not know yet has none: the first push makes it.
 */
export async function listDefinitions(
  git: Git,
  remote: string,
  { name = '*', mayBeNew = false }: { name?: string; mayBeNew?: boolean } = {},
): Promise<RemoteDefinition[]> {
  if (remote === '' || remote.startsWith('-')) {
    throw new CommandError(
      `--remote: expected a remote's name or URL, got ${JSON.stringify(remote)}`,
      'git remote lists the names.',
    );
  }
  await git.must(['rev-parse', '--git-dir']);
  const { code, stdout, stderr } = await git.run(['ls-remote', '--', remote, `${DEFINITION_PREFIX}${name}`]);
  if (code !== 0) {
    const isUnknown = /^fatal: repository '.*' not found$/m.test(stderr);
    if (isUnknown && mayBeNew) return [];
    throw new CommandError(
      `the remote ${shownRemote(remote)} did not answer: ${reason(stderr)}`,
      isUnknown
        ? 'Check its name; a repository that is new is made by the first push, or by sluice effect add.'
        : 'Check its name and your access with git ls-remote, or name another with --remote.',
    );
  }
  const lines = stdout
    .toString('utf8')
    .split('\n')
    .filter((line) => line !== '');
  return lines.slice(0, DEFINITIONS_MAX).flatMap((line) => {
    const [oid = '', ref = ''] = line.split('\t');
    // A pattern of ls-remote matches the end of a ref as well.
    return ref.startsWith(DEFINITION_PREFIX) ? [{ name: ref.slice(DEFINITION_PREFIX.length), oid }] : [];
  });
}

/** Brings the objects of definitions here, without touching any ref, FETCH_HEAD or the work tree. */
export async function fetchDefinitions(
  git: Git,
  remote: string,
  definitions: readonly RemoteDefinition[],
): Promise<void> {
  if (definitions.length === 0) return;
  await git.must([
    'fetch',
    '--quiet',
    '--no-write-fetch-head',
    '--no-tags',
    '--no-prune',
    '--no-recurse-submodules',
    '--no-auto-maintenance',
    '--refmap=',
    '--',
    remote,
    ...definitions.map(({ name }) => `${DEFINITION_PREFIX}${name}`),
  ]);
}

/** The text of a definition that was fetched; undefined where its commit holds no `effect.yaml`. */
export async function readDefinitionFile(
  git: Git,
  { name, oid }: RemoteDefinition,
): Promise<Buffer | undefined> {
  const { code, stdout } = await git.run(['cat-file', 'blob', `${oid}:${DEFINITION_FILE}`]);
  if (code === 0) return stdout;
  const isHere = await git.run(['cat-file', '-e', oid]);
  if (isHere.code === 0) return undefined;
  throw new CommandError(`the definition of ${name} changed while it was read`, 'Run it again.');
}
