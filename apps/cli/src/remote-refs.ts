import { CommandError } from './command-error.ts';
import { reason, type Git } from './git.ts';
import { shownRemote } from './without-credentials.ts';

/** A ref of a remote, by its full name. */
export interface RemoteRef {
  readonly ref: string;
  readonly oid: string;
}

/**
 * The refs of a remote that match a pattern of `git ls-remote`, by their end as well, as they are now. Reads nothing but the remote's list.
 * With `mayBeNew`, a repository that the server does not know yet has none: the first push makes it.
 */
export async function listRemoteRefs(
  git: Git,
  remote: string,
  { patterns, mayBeNew = false }: { patterns: readonly string[]; mayBeNew?: boolean },
): Promise<RemoteRef[]> {
  if (remote === '' || remote.startsWith('-')) {
    throw new CommandError(
      `--remote: expected a remote's name or URL, got ${JSON.stringify(remote)}`,
      'git remote lists the names.',
    );
  }
  await git.must(['rev-parse', '--git-dir']);
  const { code, stdout, stderr } = await git.run(['ls-remote', '--', remote, ...patterns]);
  if (code !== 0) {
    const isUnknown = /^fatal: repository '.*' not found$/m.test(stderr);
    if (isUnknown && mayBeNew) return [];
    throw new CommandError(
      `the remote ${shownRemote(remote)} did not answer: ${reason(stderr)}`,
      isUnknown
        ? 'Check its name; a repository that is new is made by the first push, or by sluice effect add.'
        : await otherRemotes(git, remote),
    );
  }
  return stdout
    .toString('utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [oid = '', ref = ''] = line.split('\t');
      return { ref, oid };
    });
}

/** What to try when a remote does not answer: most often it is not called origin. */
async function otherRemotes(git: Git, remote: string): Promise<string> {
  const names = (await git.must(['remote'])).split('\n').filter((name) => name !== '');
  if (names.includes(remote) || names.length === 0)
    return 'Check its name and your access with git ls-remote, or name another with --remote.';
  return `This clone has no remote of that name. Name one with --remote: ${names.slice(0, 5).join(', ')}${names.length > 5 ? ', …' : ''}.`;
}

/** Brings the objects of refs here, without touching any ref, FETCH_HEAD or the work tree. */
export async function fetchRemoteRefs(git: Git, remote: string, refs: readonly RemoteRef[]): Promise<void> {
  if (refs.length === 0) return;
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
    ...refs.map(({ ref }) => ref),
  ]);
}

/** A file of a ref that was fetched; undefined where its commit holds none of that name. */
export async function readRemoteFile(
  git: Git,
  { ref, oid }: RemoteRef,
  file: string,
): Promise<Buffer | undefined> {
  const { code, stdout } = await git.run(['cat-file', 'blob', `${oid}:${file}`]);
  if (code === 0) return stdout;
  const isHere = await git.run(['cat-file', '-e', oid]);
  if (isHere.code === 0) return undefined;
  throw new CommandError(`${ref} changed while it was read`, 'Run it again.');
}
