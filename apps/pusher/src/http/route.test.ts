import { expect, test } from 'vitest';
import { parseRoute } from './route.ts';

test.each([
  ['/_health', { kind: 'health' }],
  ['/_metrics?x=1', { kind: 'metrics' }],
  [
    '/acme/api.git/info/refs?service=git-upload-pack',
    { kind: 'advertise', service: 'git-upload-pack', address: { repoId: 'acme/api' } },
  ],
  [
    '/a/b/c-d_e.f.git/git-receive-pack',
    { kind: 'serve', service: 'git-receive-pack', address: { repoId: 'a/b/c-d_e.f' } },
  ],
  [
    '/_claim/9223372036854775807/api.git/git-receive-pack',
    {
      kind: 'serve',
      service: 'git-receive-pack',
      address: { repoId: 'api', claimNumber: 9_223_372_036_854_775_807n },
    },
  ],
  [
    '/_sha256/api.git/info/refs?service=git-receive-pack',
    { kind: 'advertise', service: 'git-receive-pack', address: { repoId: 'api', isSha256: true } },
  ],
])('%s', (target, route) => {
  expect(parseRoute(target)).toEqual(route);
});

test.each([
  '/api/info/refs?service=git-upload-pack',
  '/.git/info/refs?service=git-upload-pack',
  '/api.git.git/info/refs?service=git-upload-pack',
  '/a.git/b.git/info/refs?service=git-upload-pack',
  '/../etc.git/info/refs?service=git-upload-pack',
  '/a/../b.git/info/refs?service=git-upload-pack',
  '/a..b.git/info/refs?service=git-upload-pack',
  '/./a.git/info/refs?service=git-upload-pack',
  '//a.git/info/refs?service=git-upload-pack',
  '/a//b.git/info/refs?service=git-upload-pack',
  '/.hidden.git/info/refs?service=git-upload-pack',
  '/a%2Fb.git/info/refs?service=git-upload-pack',
  '/a%2e%2e.git/info/refs?service=git-upload-pack',
  '/a b.git/info/refs?service=git-upload-pack',
  '/a\\b.git/info/refs?service=git-upload-pack',
  '/caf\u00e9.git/info/refs?service=git-upload-pack',
  '/_x.git/info/refs?service=git-upload-pack',
  '/_claim/0/a.git/git-receive-pack',
  '/_claim/9223372036854775808/a.git/git-receive-pack',
  '/_claim/1/_claim/2/a.git/git-receive-pack',
  `/${'a'.repeat(201)}.git/info/refs?service=git-upload-pack`,
  `/${'a'.repeat(2000)}.git/info/refs?service=git-upload-pack`,
  '/api.git/HEAD',
  '/api.git/objects/info/packs',
  '/api.git/info/refs',
  '/api.git/info/refs?service=git-upload-archive',
  'http://evil/api.git/info/refs?service=git-upload-pack',
  '*',
  '/',
  '',
])('%s is refused', (target) => {
  expect(parseRoute(target)).toMatchObject({ kind: 'refused' });
});
