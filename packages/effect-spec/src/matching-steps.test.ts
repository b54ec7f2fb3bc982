import { expect, test } from 'vitest';
import { DEFINITION_LIMITS } from './effect-definition.ts';
import { MATCHING_STEPS_MAX, matchingSteps } from './matching-steps.ts';
import { parseDefinition } from './parse-definition.ts';

function definitions(count: number, patterns: readonly string[]) {
  const parsed = parseDefinition(JSON.stringify({ on: patterns, run: 'true' }));
  if (!('definition' in parsed)) throw new Error('the definition is malformed');
  return Array<typeof parsed>(count).fill(parsed);
}

const refs = (count: number, length: number) =>
  Array.from({ length: count }, (_, n) => `refs/heads/${String(n).padStart(length - 11, '0')}`);

test('a large repository that is pushed whole stays below the limit', () => {
  expect(matchingSteps(definitions(100, ['refs/heads/*', 'refs/tags/v*']), refs(20_000, 40))).toBeLessThan(
    MATCHING_STEPS_MAX,
  );
});

test('definitions made to be slow exceed it before they cost more than seconds', () => {
  const slow = `refs/${'*a'.repeat((DEFINITION_LIMITS.patternBytes - 5) / 2)}`;
  const hostile = definitions(500, Array<string>(DEFINITION_LIMITS.patterns).fill(slow));
  expect(matchingSteps(hostile, refs(20_000, 200))).toBeGreaterThan(MATCHING_STEPS_MAX);
  expect(matchingSteps(hostile, refs(2, 200))).toBeLessThan(MATCHING_STEPS_MAX);
});

test('so do short patterns, of as many definitions as there may be with as many refs', () => {
  const many = definitions(500, ['refs/**']);
  expect(matchingSteps(many, refs(20_000, 13))).toBeGreaterThan(MATCHING_STEPS_MAX);
  expect(matchingSteps(many, refs(5_000, 13))).toBeLessThan(MATCHING_STEPS_MAX);
});

test('refs below refs/meta/ cost nothing but where a definition asks for them', () => {
  const cost = (names: readonly string[]) => matchingSteps(definitions(1, ['refs/**']), names);
  expect(cost(['refs/heads/b'])).toBeGreaterThan('refs/**'.length * 'refs/heads/b'.length);
  expect(cost(['refs/meta/effects/a', 'refs/heads/b'])).toBe(cost(['refs/heads/b']));
  expect(cost(['refs/meta/effects/a'])).toBe(0);
});
