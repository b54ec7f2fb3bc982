import { expect, test } from 'vitest';
import { isCovered, isRepoPattern } from './repo-pattern.ts';

test.each([
  ['*', 'acme/api', true],
  ['acme/api', 'acme/api', true],
  ['acme/api', 'acme/api2', false],
  ['acme/api', 'acme/api/x', false],
  ['acme/api', 'ACME/api', false],
  ['acme/*', 'acme/api', true],
  ['acme/*', 'acme/deep/er', true],
  ['acme/*', 'acme', false],
  ['acme/*', 'acme-evil/api', false],
  ['acme.*', 'acmex', false],
])('%s and %s: %s', (pattern, repoId, covered) => {
  expect(isCovered(pattern, repoId)).toBe(covered);
});

test.each(['*', 'acme/*', 'acme/api', 'a'])('%s is a pattern', (text) => {
  expect(isRepoPattern(text)).toBe(true);
});

test.each(['', '**', 'acme*', '*/api', 'a/*/b', 'a b', 'é', 'acme/*\n', `${'x'.repeat(201)}`])(
  '%j is none',
  (text) => {
    expect(isRepoPattern(text)).toBe(false);
  },
);
