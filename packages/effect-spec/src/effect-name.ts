/** Definitions live here, one ref each. */
export const DEFINITION_PREFIX = 'refs/meta/effects/';

/** Results live here, one ref per effect and commit. */
export const RESULT_PREFIX = 'refs/meta/results/';

/** Refs below this never trigger an effect unless its definition opts in. */
export const META_PREFIX = 'refs/meta/';

/**
 * Whether `name` may name an effect: one path segment of at most 100 letters, digits, dots, dashes and underscores
 * that is safe as part of a ref, a file name and a command line.
 */
export function isEffectName(name: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/.test(name) && !/\.\.|\.$|\.lock$/i.test(name);
}

/** Whether `text` is an object id: 40 or 64 lower-case hex digits. */
export function isOid(text: string): boolean {
  return /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(text);
}

/** The ref that holds the result of an effect for a commit: `refs/meta/results/<effect>/<commit>`. */
export function resultRef(effectName: string, commitOid: string): string {
  if (!isEffectName(effectName))
    throw new TypeError(`expected an effect name, got ${JSON.stringify(effectName)}`);
  if (!isOid(commitOid)) throw new TypeError(`expected a commit OID, got ${JSON.stringify(commitOid)}`);
  return `${RESULT_PREFIX}${effectName}/${commitOid}`;
}
