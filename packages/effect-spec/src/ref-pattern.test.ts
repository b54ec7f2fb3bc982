import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { matchesPattern } from './ref-pattern.ts';

describe('matchesPattern', () => {
  it.each([
    ['refs/heads/main', 'refs/heads/main', true],
    ['refs/heads/main', 'refs/heads/main2', false],
    ['refs/heads/*', 'refs/heads/main', true],
    ['refs/heads/*', 'refs/heads/a/b', false],
    ['refs/heads/**', 'refs/heads/a/b', true],
    ['refs/heads/*/fix', 'refs/heads/a/fix', true],
    ['refs/heads/*/fix', 'refs/heads/a/b/fix', false],
    ['refs/**/fix', 'refs/heads/a/b/fix', true],
    ['refs/tags/v*.*', 'refs/tags/v1.2', true],
    ['refs/tags/v*.*', 'refs/tags/v12', false],
    ['refs/**/a*/z', 'refs/x/ab/c/ad/z', true],
    ['refs/**/a*/z', 'refs/x/ab/c/d/z', false],
    ['refs/heads/a*a', 'refs/heads/a', false],
    ['refs/heads/.+', 'refs/heads/xx', false],
    ['refs/heads/é*', 'refs/heads/été', true],
  ])('%s against %s: %s', (pattern, name, expected) => {
    expect(matchesPattern(pattern, name)).toBe(expected);
  });

  it('agrees with the plain definition of the wildcards', () => {
    const pattern = fc
      .array(fc.constantFrom('a', 'b', '/', '*', '**'), { maxLength: 8 })
      .map((parts) => parts.join(''));
    const name = fc.array(fc.constantFrom('a', 'b', '/'), { maxLength: 10 }).map((parts) => parts.join(''));
    fc.assert(
      fc.property(pattern, name, (glob, text) => {
        const source = glob.replaceAll(/\*+/g, (stars) => (stars.length === 1 ? '[^/]*' : '.*'));
        expect(matchesPattern(glob, text)).toBe(new RegExp(`^${source}$`).test(text));
      }),
      { numRuns: 3000 },
    );
  });

  it('ends on patterns that make backtracking matchers explode', () => {
    expect(matchesPattern(`refs/${'*a'.repeat(120)}*b*c`, `refs/${'a'.repeat(1000)}bb`)).toBe(false);
    expect(matchesPattern(`refs/${'**/'.repeat(80)}*x*y`, `refs/${'a/'.repeat(500)}`)).toBe(false);
  });
});
