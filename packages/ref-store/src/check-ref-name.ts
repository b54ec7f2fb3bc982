import { isUtf8 } from 'node:buffer';

const NAME_BYTES_MAX = 1024;
/** A clone keeps a ref in a file of its own, for whose name a file system has 255 bytes, and git locks it as `<name>.lock`. */
const PART_BYTES_MAX = 255 - '.lock'.length;

/** Characters that git's own rules refuse anywhere in a name, ASCII control characters aside. */
const GIT_FORBIDDEN = /[ ~^:?*[\\]/;

/**
 * Control characters, line and paragraph separators, and everything a terminal or a page shows as nothing or as a
 * change of direction: a name with one of them looks like another name.
 */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u;

/**
 * Says why a name is not acceptable as a ref, or null if it is.
 *
 * Accepts a subset of what `git check-ref-format` accepts: also required are the prefix `refs/`, valid UTF-8, at
 * most 1,024 bytes, and no control, bidirectional or invisible characters. `HEAD` and other pseudo-refs are outside
 * `refs/` and so refused. Git does not check names it hands to `proc-receive`, so this is the only check they get.
 *
 * Bytes are checked as they came, before they are decoded. The reason is one printable line that never repeats a
 * character of the name which it objects to.
 */
export function checkRefName(name: string | Buffer): string | null {
  if (typeof name !== 'string') {
    return isUtf8(name)
      ? checkRefName(name.toString('utf8'))
      : 'expected valid UTF-8, got bytes that are not';
  }
  if (!name.isWellFormed()) return 'expected valid UTF-8, got half of a surrogate pair';
  if (name === '') return 'expected a name such as refs/heads/main, got an empty one';
  const unprintable = UNPRINTABLE.exec(name);
  if (unprintable !== null) return `contains the unprintable character ${codePoint(unprintable[0])}`;
  if (!name.startsWith('refs/')) return `expected a name that starts with refs/, as in refs/heads/main`;
  const bytes = Buffer.byteLength(name);
  if (bytes > NAME_BYTES_MAX) return `is ${bytes} bytes long, more than ${NAME_BYTES_MAX}`;
  const forbidden = GIT_FORBIDDEN.exec(name);
  if (forbidden !== null) return `contains ${forbidden[0] === ' ' ? 'a space' : forbidden[0]}`;
  if (name.includes('..')) return 'contains ..';
  if (name.includes('@{')) return 'contains @{';
  if (name.endsWith('.')) return 'ends with a dot';
  for (const part of name.split('/')) {
    if (part === '') return name.endsWith('/') ? 'ends with a slash' : 'contains an empty part (//)';
    if (part.startsWith('.')) return 'has a part that starts with a dot';
    if (part.endsWith('.lock')) return 'has a part that ends with .lock';
  }
  return null;
}

/**
 * The same for a name that a push sets: also, no clone could keep a ref of which a part between slashes is longer than
 * 250 bytes, and one such ref makes its whole fetch fail. What has such a name already can be deleted.
 */
export function checkNameToSet(name: string | Buffer): string | null {
  const reason = checkRefName(name);
  if (reason !== null) return reason;
  const longest = Math.max(
    ...name
      .toString()
      .split('/')
      .map((part) => Buffer.byteLength(part)),
  );
  return longest <= PART_BYTES_MAX
    ? null
    : `expected at most ${PART_BYTES_MAX} bytes between slashes, got ${longest}, which no clone can keep as a file; choose a shorter name`;
}

function codePoint(character: string): string {
  return `U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}`;
}
