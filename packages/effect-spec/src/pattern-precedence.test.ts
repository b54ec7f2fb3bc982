import fc from 'fast-check';
import { expect, test } from 'vitest';
import { comparePatterns } from './pattern-precedence.ts';
import { matchesPattern } from './ref-pattern.ts';

const literal = fc.string({ unit: fc.constantFrom('a', 'b', '/'), minLength: 1, maxLength: 3 });
const wildcard = fc.constantFrom('*', '**');

/** Literal texts with a wildcard between each two, perhaps none in front and at the end. */
const pattern = fc
  .tuple(fc.array(fc.tuple(literal, wildcard), { maxLength: 4 }), literal, wildcard, fc.boolean())
  .map(([parts, text, last, isOpen]) => `refs/${parts.flat().join('')}${text}${isOpen ? last : ''}`);

/** What a wildcard can be narrowed to, so that what is matched can only become less. */
const narrowings: Readonly<Record<string, readonly string[]>> = {
  '*': ['', 'a', 'b', 'a*', '*a', 'a*b'],
  '**': ['', '/', 'a', '*', 'a**', '**/', '*/a'],
};

test('any order of the same patterns is sorted alike', () => {
  const patterns = fc.uniqueArray(pattern, { minLength: 2, maxLength: 8 });
  const shuffled = patterns.chain((list) =>
    fc.tuple(fc.constant(list), fc.shuffledSubarray(list, { minLength: list.length })),
  );
  fc.assert(
    fc.property(shuffled, ([list, again]) => {
      expect(again.toSorted(comparePatterns)).toEqual(list.toSorted(comparePatterns));
      for (const [a, b] of list.map((one, index) => [one, again[index]!] as const)) {
        expect(Math.sign(comparePatterns(a, b))).toBe(0 - Math.sign(comparePatterns(b, a)));
        expect(comparePatterns(a, b) === 0).toBe(a === b);
      }
    }),
  );
});

test('a pattern that matches a part of what another matches comes before it', () => {
  const narrowed = pattern
    .filter((wide) => wide.includes('*'))
    .chain((wide) => {
      const pieces = wide.split(/(\*+)/).map((piece) => fc.constantFrom(piece, ...(narrowings[piece] ?? [])));
      return fc.tuple(
        fc.constant(wide),
        fc.tuple(...pieces).map((parts) => parts.join('')),
      );
    })
    .filter(([wide, narrow]) => wide !== narrow);
  fc.assert(
    fc.property(narrowed, ([wide, narrow]) => {
      expect(comparePatterns(narrow, wide)).toBeLessThan(0);
    }),
    { numRuns: 2000 },
  );
});

test('an exact name comes before every pattern that matches it', () => {
  const name = fc
    .string({ unit: fc.constantFrom('a', 'b', '/'), minLength: 1, maxLength: 6 })
    .map((text) => `refs/${text}`);
  fc.assert(
    fc.property(name, pattern, (exact, other) => {
      fc.pre(exact !== other && matchesPattern(other, exact));
      expect(comparePatterns(exact, other)).toBeLessThan(0);
    }),
    { numRuns: 100 },
  );
});

test.each([
  ['refs/heads/main', 'refs/heads/main*', 'more before the wildcard, or the same and no wildcard'],
  ['refs/heads/*', 'refs/**', 'more before the first wildcard'],
  ['refs/meta/effects/*', 'refs/**/effects/very-long-name-of-an-effect', 'that counts before anything else'],
  ['refs/heads/*/fix', 'refs/heads/*', 'more besides wildcards'],
  ['refs/heads/*', 'refs/heads/**', 'fewer **'],
  ['refs/heads/*ab*', 'refs/heads/*a*b*', 'fewer wildcards'],
  ['refs/heads/*a', 'refs/heads/*b', 'byte order'],
])('%s comes before %s: %s', (first, second) => {
  expect(comparePatterns(first, second)).toBeLessThan(0);
  expect(comparePatterns(second, first)).toBeGreaterThan(0);
});
