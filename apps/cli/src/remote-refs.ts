import { checkRefName } from '@sluice/ref-store';
import { CommandError } from './command-error.ts';
import { findFiles, findObjects, readContents, type CatFile } from './git-objects.ts';
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
        : /Failed to connect|Connection refused|Could not resolve host/.test(stderr)
          ? 'Nothing answers at its address: check that the server runs, and the address with git remote -v.'
          : await otherRemotes(git, remote),
    );
  }
  return (
    stdout
      .toString('utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => {
        const [oid = '', ref = ''] = line.split('\t');
        return { ref, oid };
      })
      // Git passes on whatever a remote calls its refs, and to a fetch a name with a colon says which ref to write.
      .filter(({ ref }) => checkRefName(ref) === null)
  );
}

/** What to try when a remote does not answer: most often it is not called origin. */
async function otherRemotes(git: Git, remote: string): Promise<string> {
  const names = (await git.must(['remote'])).split('\n').filter((name) => name !== '');
  if (names.includes(remote) || names.length === 0)
    return 'Check its name and your access with git ls-remote, or name another with --remote.';
  return `This clone has no remote of that name. Name one with --remote: ${names.slice(0, 5).join(', ')}${names.length > 5 ? ', …' : ''}.`;
}

/** Each batch of what was fetched is read from the clone in far less. */
const READ_MS_MAX = 30_000;
/** Nothing that is stored in such a file is near that size. */
const FILE_BYTES_MAX = 1024 * 1024;

/**
 * Brings the objects of refs here and reads a file of each, in their order, with a number of processes that does not
 * grow with theirs; undefined where the commit holds none of that name, a link included, or one too large to mean
 * anything.
 */
export async function fetchRemoteFiles(
  git: Git,
  remote: string,
  refs: readonly RemoteRef[],
  file: string,
): Promise<(Buffer | undefined)[]> {
  if (refs.length === 0) return [];
  await fetchRefs(git, remote, refs);
  const catFile: CatFile = (mode, input) =>
    git.mustRead(['cat-file', mode], {
      input,
      timeoutMs: READ_MS_MAX,
      // As they were pushed, whatever refs below refs/replace/ say.
      env: { GIT_NO_REPLACE_OBJECTS: '1' },
    });
  const oids = refs.map(({ oid }) => oid);
  const commits = await findObjects(catFile, oids);
  const gone = refs.find((_, index) => commits[index] === null);
  if (gone !== undefined) throw new CommandError(`${gone.ref} changed while it was read`, 'Run it again.');
  const readable = (await findFiles(catFile, oids, file)).flatMap((blob, index) =>
    blob !== null && blob.bytes <= FILE_BYTES_MAX ? [{ index, blob }] : [],
  );
  const contents = await readContents(
    catFile,
    readable.map(({ blob }) => blob),
  );
  const files: (Buffer | undefined)[] = refs.map(() => undefined);
  for (const [at, { index }] of readable.entries()) files[index] = contents[at];
  return files;
}

/** Without touching any ref, FETCH_HEAD or the work tree. */
async function fetchRefs(git: Git, remote: string, refs: readonly RemoteRef[]): Promise<void> {
  await git.must([
    'fetch',
    '--quiet',
    '--no-write-fetch-head',
    '--no-tags',
    '--no-prune',
    '--no-recurse-submodules',
    '--no-auto-maintenance',
    // A partial clone would leave the files out, and get them one by one later.
    '--no-filter',
    '--refmap=',
    '--',
    remote,
    ...refs.map(({ ref }) => ref),
  ]);
}
