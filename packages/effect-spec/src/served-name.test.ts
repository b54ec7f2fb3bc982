import { expect, test } from 'vitest';
import { isServedName } from './served-name.ts';

test.each(['acme/api', 'a', 'a/b/c', 'A.b_c-d/_e', '-x', 'x'.repeat(200)])(
  '%s has a URL of its own',
  (name) => {
    expect(isServedName(name)).toBe(true);
  },
);

test.each([
  '',
  '/a',
  'a/',
  'a//b',
  '.a',
  'a/.b',
  'a/..',
  'a..b',
  'a.git',
  'a/b.GIT',
  '_claim/1/a',
  'acme/a@b',
  'acme/a:b',
  'acme/a+b',
  'acme/a%2fb',
  'acme/ä',
  'x'.repeat(201),
])('%s has none', (name) => {
  expect(isServedName(name)).toBe(false);
});
