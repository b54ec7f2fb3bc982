import type { EffectDefinition } from './effect-definition.ts';
import { META_PREFIX } from './effect-name.ts';

/**
 * Most steps that one push may ask for, since its refs are matched while its transaction is open: about a second for
 * patterns made to be slow (33 µs for the longest pattern and ref name), a fraction of it for ordinary ones.
 */
export const MATCHING_STEPS_MAX = 10_000_000_000;

/** What a definition and a ref cost that are compared at once, however short their pattern and name: 0.2 to 0.3 µs. */
const PAIR_STEPS = 3_000;

/**
 * Upper bound of the work that matching refs against definitions takes: characters of patterns × characters of the names
 * they are compared with, and something for each pair.
 */
export function matchingSteps(
  definitions: readonly { readonly definition: EffectDefinition }[],
  names: readonly string[],
): number {
  const beyondMeta = names.filter((name) => !name.startsWith(META_PREFIX));
  const all = { count: names.length, characters: characters(names) };
  const most = { count: beyondMeta.length, characters: characters(beyondMeta) };
  return definitions.reduce((sum, { definition: { on } }) => {
    const compared = on.meta ? all : most;
    return sum + characters(on.refs) * compared.characters + PAIR_STEPS * compared.count;
  }, 0);
}

/** Upper bound of the work that comparing each name with each pattern takes, in the same steps. */
export function patternSteps(patterns: readonly string[], names: readonly string[]): number {
  return characters(patterns) * characters(names);
}

function characters(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + text.length, 0);
}
