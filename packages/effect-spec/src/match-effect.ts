import type { EffectDefinition } from './effect-definition.ts';
import { META_PREFIX } from './effect-name.ts';
import { matchesPattern } from './ref-pattern.ts';

/** One ref edit of a push. */
export interface TriggerEdit {
  /** Full ref name. */
  readonly name: string;
  /** Value before; null: the ref is new. */
  readonly oldOid: string | null;
  /** Value after; null: the ref is deleted. */
  readonly newOid: string | null;
}

export type Match = { readonly matches: true } | { readonly matches: false; readonly why: string };

/** Reasons name at most this many patterns. */
const PATTERNS_NAMED = 3;

/**
 * Whether a ref edit triggers the effect, and if not, why, in words for the person who pushed. A ref matches when some
 * pattern matches it and no `!` pattern does, in whatever order they stand.
 */
export function matchEffect(definition: EffectDefinition, edit: TriggerEdit): Match {
  const { refs, deletes, meta } = definition.on;
  if (edit.name.startsWith(META_PREFIX) && !meta)
    return no(`refs below ${META_PREFIX} count only with "meta: true"`);
  const wanted = refs.filter((pattern) => !pattern.startsWith('!'));
  if (!wanted.some((pattern) => matchesPattern(pattern, edit.name))) {
    const more = wanted.length - PATTERNS_NAMED;
    return no(
      `matches none of ${wanted.slice(0, PATTERNS_NAMED).join(', ')}${more > 0 ? ` and ${more} more` : ''}`,
    );
  }
  const excluding = refs.find(
    (pattern) => pattern.startsWith('!') && matchesPattern(pattern.slice(1), edit.name),
  );
  if (excluding !== undefined) return no(`excluded by ${excluding}`);
  if (edit.newOid === null && !deletes) return no('a deletion counts only with "deletes: true"');
  return { matches: true };
}

function no(why: string): Match {
  return { matches: false, why };
}
