import type { EffectDefinition } from './effect-definition.ts';
import { META_PREFIX } from './effect-name.ts';
import { wildcardsIn, wordsFor } from './ref-pattern.ts';

/**
 * Most steps that one push may ask for: about a second for patterns made to be slow, a fraction of it for ordinary ones.
 * A step is 1.5 to 3 ns.
 */
export const MATCHING_STEPS_MAX = 400_000_000;

/** After so many everybody else has a turn: a few milliseconds. */
export const TURN_STEPS = 1_000_000;

/** What comparing a text with a name takes at most, however long the name is, and for each of its characters. */
export interface MatchingCost {
  readonly each: number;
  readonly perCharacter: number;
}

/** What a pattern takes that is compared with a name, however short both are: 0.1 µs. */
const PATTERN_STEPS = 40;
/** What an effect and a ref take that are brought together at all. */
const PAIR_STEPS = 60;
/** For each character of a pattern with several wildcards, to find the places in it. */
const PLACE_STEPS = 3;
/** For each character of a name, beside one for each of the integers that hold the places. */
const CHARACTER_STEPS = 3;

/** Upper bound of the work of comparing names with these patterns. */
export function costOf(patterns: readonly string[]): MatchingCost {
  let [each, perCharacter] = [0, 0];
  for (const pattern of patterns) {
    each += PATTERN_STEPS;
    const { before, isOne } = wildcardsIn(pattern);
    if (isOne || before === pattern.length) continue;
    each += PLACE_STEPS * pattern.length;
    perCharacter += CHARACTER_STEPS + wordsFor(pattern);
  }
  return { each, perCharacter };
}

/** The same for an effect, and a name that may trigger it. */
export function costOfEffect({ on }: EffectDefinition): MatchingCost {
  const { each, perCharacter } = costOf(on.refs);
  return { each: each + PAIR_STEPS, perCharacter };
}

export function stepsFor({ each, perCharacter }: MatchingCost, name: string): number {
  return each + perCharacter * name.length;
}

/** Upper bound of the work that matching refs against definitions takes. */
export function matchingSteps(
  definitions: readonly { readonly definition: EffectDefinition }[],
  names: readonly string[],
): number {
  const beyondMeta = names.filter((name) => !name.startsWith(META_PREFIX));
  const all = { count: names.length, characters: characters(names) };
  const most = { count: beyondMeta.length, characters: characters(beyondMeta) };
  return definitions.reduce((sum, { definition }) => {
    const compared = definition.on.meta ? all : most;
    const { each, perCharacter } = costOfEffect(definition);
    return sum + each * compared.count + perCharacter * compared.characters;
  }, 0);
}

/** Upper bound of the work that comparing each name with each pattern takes. */
export function patternSteps(patterns: readonly string[], names: readonly string[]): number {
  const { each, perCharacter } = costOf(patterns);
  return each * names.length + perCharacter * characters(names);
}

function characters(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + text.length, 0);
}
