import { spawnSync } from 'node:child_process';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { checkNameToSet, checkRefName } from './check-ref-name.ts';

test.each([
  'refs/heads/main',
  'refs/x',
  'refs/heads/-x',
  'refs/heads/--output=/tmp/x',
  'refs/heads/fruit-\u{1F34C}',
  'refs/heads/caf\u00e9',
  'refs/heads/cafe\u0301',
  'refs/heads/a#b%2F_',
  'refs/heads/$(id)`;\'"<>|&',
  'refs/heads/@',
  'refs/heads/a.b',
  `refs/heads/${'é'.repeat(506)}`,
])('%s is accepted', (name) => {
  expect(checkRefName(name)).toBeNull();
  expect(checkRefName(Buffer.from(name))).toBeNull();
});

test.each([
  ['', 'empty'],
  ['HEAD', 'starts with refs/'],
  ['FETCH_HEAD', 'starts with refs/'],
  ['heads/main', 'starts with refs/'],
  ['refs', 'starts with refs/'],
  ['refs/', 'ends with a slash'],
  ['refs/heads/', 'ends with a slash'],
  ['refs//main', 'empty part'],
  ['refs/heads/../../evil', 'contains ..'],
  ['refs/heads/.hidden', 'starts with a dot'],
  ['refs/heads/x.lock', 'ends with .lock'],
  ['refs/heads/x.lock/y', 'ends with .lock'],
  ['refs/heads/x.', 'ends with a dot'],
  ['refs/heads/a b', 'a space'],
  ['refs/heads/a~1', '~'],
  ['refs/heads/a@{0}', '@{'],
  ['refs/heads/a\\b', '\\'],
  ['refs/heads/a\0', 'U+0000'],
  ['refs/heads/a\u0085', 'U+0085'],
  ['refs/heads/\u202Egpj.exe', 'U+202E'],
  ['refs/heads/a\u200Bb', 'U+200B'],
  ['refs/heads/a\u3164b', 'U+3164'],
  ['refs/heads/a\u{E0041}', 'U+E0041'],
  ['refs/heads/a\u2028', 'U+2028'],
  ['refs/heads/a\uD83C', 'surrogate'],
  [`refs/heads/${'é'.repeat(507)}`, '1025 bytes'],
])('%j is refused: %s', (name, reason) => {
  expect(checkRefName(name)).toContain(reason);
});

test('bytes that are not UTF-8 are refused before they are decoded', () => {
  expect(checkRefName(Buffer.from('refs/heads/\xff', 'latin1'))).toContain('UTF-8');
  // Overlong '/', and a surrogate in UTF-8: decoders differ on both.
  expect(checkRefName(Buffer.from([...Buffer.from('refs/heads/'), 0xc0, 0xaf]))).toContain('UTF-8');
  expect(checkRefName(Buffer.from([...Buffer.from('refs/heads/'), 0xed, 0xa0, 0x80]))).toContain('UTF-8');
});

test.each(['a/b', 'a', 'a/\u00e9'])(
  'no part of a name to set is longer than a clone can keep, as in %s',
  (parts) => {
    const fitting = `refs/heads/${parts.replace(/.$/u, (last) => last.repeat(250 / Buffer.byteLength(last)))}`;
    expect(checkNameToSet(fitting)).toBeNull();
    for (const name of [`${fitting}x`, `${fitting}x/c`]) {
      const reason = 'expected at most 250 bytes between slashes, got 251';
      expect(checkNameToSet(name)).toContain(reason);
      expect(checkNameToSet(Buffer.from(name))).toContain(reason);
      expect(checkRefName(name)).toBeNull();
    }
    expect(checkNameToSet('refs/heads/..')).toBe('contains ..');
  },
);

const pieces = [
  'a',
  'B',
  '.',
  '..',
  '/',
  '//',
  '@',
  '{',
  '@{',
  '.lock',
  '-',
  '~',
  '^',
  ':',
  '?',
  '*',
  '[',
  '\\',
  ' ',
  '%',
  '_',
  'é',
  '\u202e',
  '\x7f',
  '\x01',
  'refs/',
  'HEAD',
  '\u{1F34C}',
];
const names = fc
  .tuple(fc.constantFrom('refs/', 'refs/heads/', ''), fc.array(fc.constantFrom(...pieces), { maxLength: 6 }))
  .map(([start, rest]) => start + rest.join(''));

test('what is accepted, git accepts; and in printable ASCII below refs/, the other way round too', () => {
  fc.assert(
    fc.property(names, (name) => {
      const git = spawnSync('git', ['check-ref-format', name], { stdio: 'ignore' }).status === 0;
      const ours = checkRefName(name) === null;
      if (ours) expect(git).toBe(true);
      if (name.startsWith('refs/') && /^[ -~]+$/.test(name)) expect(ours).toBe(git);
    }),
    { numRuns: 300 },
  );
}, 120_000);

test('a reason is one printable line', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (name) => {
      const reason = checkRefName(`refs/${name}`);
      if (reason !== null) expect(reason).toMatch(/^[ -~]+$/);
    }),
  );
});
