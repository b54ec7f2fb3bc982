import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { matchesPattern } from './ref-pattern.ts';

/** By all ends that the match may have after each part of the pattern. */
function matchesPlainly(pattern: string, name: string): boolean {
  let ends = new Set([0]);
  for (const part of pattern.match(/\*+|[^*]/g) ?? []) {
    const next = new Set<number>();
    for (const end of ends) {
      if (name[end] === part) next.add(end + 1);
      for (let at = end; part.startsWith('*') && at <= name.length; at += 1) {
        next.add(at);
        if (part === '*' && name[at] === '/') break;
      }
    }
    ends = next;
  }
  return ends.has(name.length);
}

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
      .array(fc.constantFrom('a', 'b', 'é', '/', '*', '**'), { maxLength: 8 })
      .map((parts) => parts.join(''));
    const name = fc
      .array(fc.constantFrom('a', 'b', 'é', '/'), { maxLength: 10 })
      .map((parts) => parts.join(''));
    fc.assert(
      fc.property(pattern, name, (glob, text) => {
        const source = glob.replaceAll(/\*+/g, (stars) => (stars.length === 1 ? '[^/]*' : '.*'));
        expect(matchesPattern(glob, text)).toBe(new RegExp(`^${source}$`).test(text));
      }),
      { numRuns: 3000 },
    );
  });

  it('agrees with it for long patterns as well, and names made from them', () => {
    const glob = fc.array(fc.constantFrom('a', 'bcd', 'é', '/', '*', '**'), { minLength: 20, maxLength: 90 });
    const fill = fc.array(fc.constantFrom('', 'a', 'ab', '/', '/a'), { minLength: 90, maxLength: 90 });
    fc.assert(
      fc.property(glob, fill, fc.nat(), (parts, filled, chosen) => {
        const pattern = parts.join('');
        const name = parts.map((part, at) => (part.startsWith('*') ? filled[at]! : part)).join('');
        const cut = chosen % (name.length + 1);
        for (const text of [name, name.slice(0, cut) + name.slice(cut + 1)])
          expect(matchesPattern(pattern, text)).toBe(matchesPlainly(pattern, text));
      }),
      { numRuns: 1000 },
    );
  });

  it('ends on patterns that make backtracking matchers explode', () => {
    expect(matchesPattern(`refs/${'*a'.repeat(120)}*b*c`, `refs/${'a'.repeat(1000)}bb`)).toBe(false);
    expect(matchesPattern(`refs/${'**/'.repeat(80)}*x*y`, `refs/${'a/'.repeat(500)}`)).toBe(false);
  });

  it.each([
    ['*a', 'a'],
    ['**a*a', 'aa/'],
    ['*a/', 'a/'],
    ['**a*/', 'a/'],
    ['*/', 'a/'],
    ['/a*', 'aa/'],
    ['**/*', 'aaaa/'],
  ])('takes microseconds for the longest pattern of %s and the longest name of %s', (part, unit) => {
    const pattern = `refs/**${part.repeat(Math.floor(290 / part.length))}z`;
    const name = `refs/heads/${unit.repeat(1013)}`.slice(0, 1023).concat('z');
    // Processor time of the fastest of several rounds: nobody else's load counts.
    const rounds = Array.from({ length: 5 }, () => {
      const begin = process.cpuUsage();
      for (let n = 0; n < 200; n += 1) matchesPattern(pattern, name);
      const { user, system } = process.cpuUsage(begin);
      return (user + system) / 200;
    });
    expect(Math.min(...rounds)).toBeLessThan(200);
  });
});
