const NAME_BYTES_MAX = 200;

/**
 * Whether a repository of that name has a URL that means it and nothing else, `/<name>.git`: nothing in it needs an escape
 * or leads elsewhere, and what begins with `_` is the pusher's own. Effects of other names can be queued and never run,
 * since dispatchers fetch by URL.
 */
export function isServedName(repoId: string): boolean {
  return repoId.length <= NAME_BYTES_MAX && !repoId.startsWith('_') && repoId.split('/').every(isSegment);
}

/** What {@link isServedName} asks for, to be read after "expected". */
export const SERVED_NAME =
  'a name of at most 200 letters, digits, ".", "_" and "-", in segments that do not begin with "." or end with ".git"';

function isSegment(segment: string): boolean {
  return (
    /^[A-Za-z0-9_-][A-Za-z0-9._-]*$/.test(segment) && !segment.includes('..') && !/\.git$/i.test(segment)
  );
}
