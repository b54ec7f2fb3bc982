import { describe, expect, it } from 'vitest';
import type { EffectDefinition } from './effect-definition.ts';
import { matchEffect } from './match-effect.ts';
import { parseDefinition } from './parse-definition.ts';

const A = 'a'.repeat(40);

function definition(on: string): EffectDefinition {
  const parsed = parseDefinition(`on: ${on}\nrun: make\n`);
  if ('problems' in parsed) throw new Error(parsed.problems[0]?.message);
  return parsed.definition;
}

describe('matchEffect', () => {
  it.each([
    ['[refs/heads/*]', 'refs/heads/main', A, 'matches'],
    ['[refs/heads/*]', 'refs/tags/v1', A, 'matches none of refs/heads/*'],
    [
      '[refs/a, refs/b, refs/c, refs/d, refs/e]',
      'refs/tags/v1',
      A,
      'matches none of refs/a, refs/b, refs/c and 2 more',
    ],
    ["['!refs/heads/wip/**', refs/heads/**]", 'refs/heads/wip/x', A, 'excluded by !refs/heads/wip/**'],
    ["[refs/heads/**, '!refs/heads/wip/**']", 'refs/heads/wip', A, 'matches'],
    ['[refs/heads/*]', 'refs/heads/main', null, 'a deletion counts only with "deletes: true"'],
    ['{refs: [refs/heads/*], deletes: true}', 'refs/heads/main', null, 'matches'],
    ['[refs/**]', 'refs/meta/effects/build', A, 'refs below refs/meta/ count only with "meta: true"'],
    ['{refs: [refs/**], meta: true}', 'refs/meta/effects/build', A, 'matches'],
    ['[refs/**]', 'refs/metadata', A, 'matches'],
  ])('on %s, %s to %s: %s', (on, name, newOid, expected) => {
    const match = matchEffect(definition(on), { name, oldOid: A, newOid });
    expect(match.matches ? 'matches' : match.why).toBe(expected);
  });
});
