const PATTERN = /^(?:[A-Za-z0-9._/@:+-]{1,200}|\*|[A-Za-z0-9._/@:+-]{1,198}\/\*)$/;

/** Whether the text is a repository, a prefix that ends with `/*`, or `*`. The schema holds the same rule. */
export function isRepoPattern(text: string): boolean {
  return PATTERN.test(text);
}

/**
 * Whether a pattern covers a repository: `*` covers all, `acme/*` everything below `acme/` at any depth, and anything
 * else one repository. A star stands for whole segments only, so that `acme/*` can never mean `acme-evil/x`.
 */
export function isCovered(repoPattern: string, repoId: string): boolean {
  if (repoPattern === '*') return true;
  return repoPattern.endsWith('/*') ? repoId.startsWith(repoPattern.slice(0, -1)) : repoId === repoPattern;
}
