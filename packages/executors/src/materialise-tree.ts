import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { checkListing } from './check-listing.ts';
import { UnsafeTreeError, type TreeLimits } from './check-tree-entries.ts';
import { createGitDir } from './create-git-dir.ts';
import { GitError, runGit, type GitCommand } from './run-git.ts';

export interface MaterialiseOptions {
  /** Bare repository that has the tree. */
  gitDir: string;
  /** OID of the tree, or of a commit. */
  treeOid: string;
  /** An empty folder. */
  into: string;
  signal?: AbortSignal;
  /** For each git command; by default two minutes. */
  timeoutMs?: number;
  limits?: TreeLimits;
}

const DEFAULT_TREE_LIMITS: TreeLimits = { entriesMax: 500_000, bytesMax: 8 * 1024 ** 3 };

/**
 * Writes a tree's files into an empty folder: bytes as stored (no filters or line-end conversion, so large-file pointers
 * stay pointers), symbolic links as written, submodules as empty folders, and no `.git`. Throws {@link UnsafeTreeError}
 * for a tree with names that escape the folder, are there twice or pass for git's own, before anything is written.
 */
export async function materialiseTree(options: MaterialiseOptions): Promise<void> {
  const { gitDir, treeOid, into, signal, timeoutMs = 120_000, limits = DEFAULT_TREE_LIMITS } = options;
  if (!/^([0-9a-f]{40}|[0-9a-f]{64})$/.test(treeOid))
    throw new TypeError(`treeOid: expected an OID, got ${JSON.stringify(treeOid)}`);
  if ((await readdir(into)).length > 0) throw new TypeError(`into: expected an empty folder, got ${into}`);
  // A git folder of its own, with the repository's objects: neither the repository's configuration nor its attributes
  // have a say, and two runs do not share an index.
  const privateDir = await mkdtemp(`${into}.git-`);
  const bounds = {
    gitDir: privateDir,
    env: { GIT_OBJECT_DIRECTORY: join(gitDir, 'objects'), GIT_WORK_TREE: into },
    timeoutMs,
    ...(signal === undefined ? {} : { signal }),
  };
  try {
    await createGitDir(privateDir, treeOid.length === 64 ? 'sha256' : 'sha1');
    await checkListing(await listTree({ ...bounds, treeOid }), limits);
    await runGit({ ...bounds, args: ['read-tree', treeOid] });
    await runGit({ ...bounds, args: ['checkout-index', '--all', '--quiet'] });
  } finally {
    await rm(privateDir, { recursive: true, force: true });
  }
}

const LISTING_BYTES_MAX = 64 * 1024 ** 2;

/** A few objects can name more files than there are atoms: that is the tree's fault, and no reason to try again. */
async function listTree({
  treeOid,
  ...bounds
}: Omit<GitCommand, 'args'> & { treeOid: string }): Promise<string> {
  try {
    return await runGit({
      ...bounds,
      args: ['ls-tree', '-r', '-t', '-l', '-z', '--full-tree', treeOid],
      encoding: 'latin1',
      outputBytesMax: LISTING_BYTES_MAX,
    });
  } catch (error) {
    if (!(error instanceof GitError && error.isTooLong)) throw error;
    throw new UnsafeTreeError('/', `has more names than fit into ${LISTING_BYTES_MAX} bytes`);
  }
}
