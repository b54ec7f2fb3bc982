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
  [
    '/Acme/API.git/info/refs?service=git-upload-pack',
    { kind: 'advertise', service: 'git-upload-pack', address: { repoId: 'Acme/API' } },
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
  '/cafe\u0301.git/info/refs?service=git-upload-pack',
  '/\uff41cme.git/info/refs?service=git-upload-pack',
  '/a\u2044b.git/info/refs?service=git-upload-pack',
  '/a\u202eb.git/info/refs?service=git-upload-pack',
  '/a\0b.git/info/refs?service=git-upload-pack',
  '/a%00b.git/info/refs?service=git-upload-pack',
  '/a%252fb.git/info/refs?service=git-upload-pack',
  '/%c0%ae%c0%ae/b.git/info/refs?service=git-upload-pack',
  '/a/%2e%2e/b.git/info/refs?service=git-upload-pack',
  '/a/..;/b.git/info/refs?service=git-upload-pack',
  '/a/.../b.git/info/refs?service=git-upload-pack',
  '/a/b.git/../c.git/info/refs?service=git-upload-pack',
  '/a.GIT/info/refs?service=git-upload-pack',
  '/a.GIT.git/info/refs?service=git-upload-pack',
  '/a.git/INFO/REFS?service=git-upload-pack',
  '/a.git/info/refs/?service=git-upload-pack',
  '/a.git//info/refs?service=git-upload-pack',
  '/a.git/info%2frefs?service=git-upload-pack',
  '/a.git;x/info/refs?service=git-upload-pack',
  '/a.git/info/refs#?service=git-upload-pack',
  '/a.git/info/refs?service=GIT-UPLOAD-PACK',
  '/a.git/info/refs?service=git-upload-pack%00',
  '/a:b.git/info/refs?service=git-upload-pack',
  '/_health/a.git/info/refs?service=git-upload-pack',
  '/_metrics/',
  '/_claim/01/a.git/git-receive-pack',
  '/_claim/1.git/git-receive-pack',
  '/_sha256/_sha256/a.git/git-receive-pack',
  '/_sha256/_claim/1/a.git/git-receive-pack',
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

test.each(['info/refs?service=git-upload-pack', 'git-upload-pack'])(
  'a fetch from the URL of a claim, %s, is told where to fetch from',
  (action) => {
    expect(parseRoute(`/_claim/7/acme/api.git/${action}`)).toEqual({
      kind: 'refused',
      status: 404,
      message: 'nothing is fetched from the URL of a claim, which takes its result: expected /acme/api.git',
    });
  },
);
