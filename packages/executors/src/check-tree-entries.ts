/** One entry of a recursive tree listing. */
export interface TreeEntry {
  mode: string;
  kind: string;
  /** Bytes of a blob; 0 for others. */
  size: number;
  /** Path from the root, as raw bytes in latin1. */
  path: string;
}

/** The beginning of a longer path says enough. */
const SHOWN_BYTES_MAX = 300;

/** A tree that must not be written to a disk. */
export class UnsafeTreeError extends Error {
  constructor(path: string, what: string) {
    const shown = Buffer.from(path.slice(0, SHOWN_BYTES_MAX), 'latin1').toString();
    super(`the tree cannot be checked out: ${JSON.stringify(shown)} ${what}`);
    this.name = 'UnsafeTreeError';
  }
}

/** A longer path has no name for the system, a NUL at its end included. */
const PATH_BYTES_MAX = 4095;

export interface TreeLimits {
  entriesMax: number;
  bytesMax: number;
}

/**
 * Throws unless every entry lies inside the folder that the tree is written to, exactly once, and below a real folder:
 * git stores whatever names a hostile client hashes, a slash or `..` included.
 */
export function createTreeChecker({ entriesMax, bytesMax }: TreeLimits): (entry: TreeEntry) => void {
  const seen = new Map<string, string>();
  let bytes = 0;
  return ({ mode, kind, size, path }) => {
    const slash = path.lastIndexOf('/');
    const [parent, name] = [path.slice(0, Math.max(slash, 0)), path.slice(slash + 1)];
    if (name === '' || name === '.' || name === '..') throw new UnsafeTreeError(path, 'is not a file name');
    if (isGitFolder(name)) throw new UnsafeTreeError(path, "would be taken for git's own folder");
    if (Buffer.byteLength(name, 'latin1') > 255)
      throw new UnsafeTreeError(path, 'is longer than a file name may be');
    if (Buffer.byteLength(path, 'latin1') > PATH_BYTES_MAX)
      throw new UnsafeTreeError(path, `is longer than a path may be, ${PATH_BYTES_MAX} bytes`);
    if (seen.has(path)) throw new UnsafeTreeError(path, 'is there twice');
    // Listings print a name that holds a slash like a path; but then its first part is not a folder listed before.
    if (slash !== -1 && seen.get(parent) !== 'tree')
      throw new UnsafeTreeError(path, 'is not inside a folder of the tree');
    if (!KNOWN_MODES.has(mode)) throw new UnsafeTreeError(path, `has the unknown mode ${mode}`);
    seen.set(path, kind);
    bytes += size;
    if (seen.size > entriesMax)
      throw new UnsafeTreeError(path, `is one entry more than the limit of ${entriesMax}`);
    if (bytes > bytesMax)
      throw new UnsafeTreeError(path, `takes the tree beyond the limit of ${bytesMax} bytes`);
  };
}

const KNOWN_MODES = new Set(['040000', '100644', '100664', '100755', '120000', '160000']);

/** Characters that some file systems leave out of names, as UTF-8 bytes: a name with them can end up as `.git`. */
const IGNORED = /\u00e2\u0080[\u008c-\u008f\u00aa-\u00ae]|\u00e2\u0081[\u00aa-\u00af]|\u00ef\u00bb\u00bf/g;

function isGitFolder(name: string): boolean {
  const plain = name
    .replace(IGNORED, '')
    .toLowerCase()
    .replace(/[. ]+$/, '')
    .split(':')[0];
  return plain === '.git' || plain === 'git~1';
}
