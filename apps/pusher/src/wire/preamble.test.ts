import { expect, test } from 'vitest';
import { encodePkt, FLUSH, PktLineError } from './pkt-line.ts';
import { parsePreamble, PreambleRefused } from './preamble.ts';

const limits = { bytesMax: 10_000, refsMax: 3 };
const zero = '0'.repeat(40);
const oid = 'a'.repeat(40);
const capabilities = '\0 report-status side-band-64k object-format=sha1 agent=git/2.39.5';

function list(...lines: (string | Buffer)[]): Buffer {
  return Buffer.concat([...lines.map((line) => encodePkt(line)), FLUSH]);
}

test('commands and capabilities are read, and the pack begins where the list ends', () => {
  const bytes = list(`${zero} ${oid} refs/heads/main${capabilities}`, `${oid} ${zero} refs/heads/old`);
  expect(parsePreamble(Buffer.concat([bytes, Buffer.from('PACK…')]), limits)).toEqual({
    commands: [
      { oldOid: zero, newOid: oid, name: Buffer.from('refs/heads/main') },
      { oldOid: oid, newOid: zero, name: Buffer.from('refs/heads/old') },
    ],
    capabilities: new Set(['report-status', 'side-band-64k', 'object-format', 'agent']),
    objectFormat: 'sha1',
    pushOptions: [],
    certificate: null,
    bytes: bytes.length,
  });
});

test('a preamble cut anywhere is incomplete', () => {
  const bytes = Buffer.concat([list(`${zero} ${oid} refs/heads/main\0push-options`), list('ci.skip')]);
  for (let cut = 0; cut < bytes.length; cut += 1)
    expect(parsePreamble(bytes.subarray(0, cut), limits)).toBeNull();
  expect(parsePreamble(bytes, limits)).toMatchObject({ pushOptions: ['ci.skip'], bytes: bytes.length });
});

test('a lone flush is a probe', () => {
  expect(parsePreamble(FLUSH, limits)).toBe('probe');
});

test('a name keeps its bytes', () => {
  const name = Buffer.from([0x72, 0xff, 0xfe]);
  const preamble = parsePreamble(list(Buffer.concat([Buffer.from(`${zero} ${oid} `), name])), limits);
  expect(preamble).toMatchObject({ commands: [{ name }] });
});

test('shallow lines are left to git', () => {
  const bytes = list(`shallow ${oid}`, `${zero} ${oid} refs/heads/main${capabilities}`);
  expect(parsePreamble(bytes, limits)).toMatchObject({ commands: [{ newOid: oid }], bytes: bytes.length });
});

test.each([
  ['a word with a value', 'push-options=1 side-band-64k', ['push-options', 'side-band-64k']],
  ['part of a word', 'xpush-options quietly', ['xpush-options', 'quietly']],
  ['blanks', '  report-status  ', ['report-status']],
])('capabilities are found as git finds them: %s', (_, words, names) => {
  const bytes = Buffer.concat([list(`${zero} ${oid} refs/heads/main\0${words}\n`), FLUSH]);
  expect(parsePreamble(bytes, limits)).toMatchObject({ capabilities: new Set(names) });
});

test.each([
  ['behind a tab', list(`${zero} ${oid} refs/heads/main\0quiet\tpush-options`), 'control characters'],
  ['behind another NUL', list(`${zero} ${oid} refs/heads/main\0quiet\0push-options`), 'control characters'],
  ['of a shallow line', list(`shallow ${oid}\0push-options`, `${zero} ${oid} refs/heads/main`), '<old>'],
  ['of a later ref', list(`${zero} ${oid} refs/heads/a`, `${zero} ${oid} refs/heads/b\0quiet`), 'NUL'],
])('capabilities %s, which git reads otherwise, are refused', (_, bytes, reason) => {
  expect(() => parsePreamble(bytes, limits)).toThrow(reason);
});

test('a line feed inside of a packet belongs to the name', () => {
  const bytes = list(`${zero} ${oid} refs/heads/main\n${capabilities}`);
  expect(parsePreamble(bytes, limits)).toMatchObject({
    commands: [{ name: Buffer.from('refs/heads/main\n') }],
  });
});

test.each([
  ['no ref at all', list(`shallow ${oid}`), 'a list of refs, got none'],
  ['a shallow commit that is none', list('shallow abc', `${zero} ${oid} refs/heads/main`), '<old>'],
  ['an error of the other side', list('ERR no'), 'got ERR'],
])('%s is malformed', (_, bytes, reason) => {
  expect(() => parsePreamble(bytes, limits)).toThrow(PktLineError);
  expect(() => parsePreamble(bytes, limits)).toThrow(reason);
});

test('a push option that cannot be recorded is refused with the reason', () => {
  const bytes = Buffer.concat([list(`${zero} ${oid} refs/heads/main\0push-options`), list('ok', 'a\nb')]);
  expect(() => parsePreamble(bytes, limits)).toThrow(PreambleRefused);
  expect(() => parsePreamble(bytes, limits)).toThrow('each on one line');
});

test('a certificate in more packets than it can have lines is refused before it is read', () => {
  const bytes = list('push-cert', ...Array<string>(2000).fill('x'));
  expect(() => parsePreamble(bytes, limits)).toThrow('at most 3 refs');
});

test('a name with NUL in it is refused, since git would read another one', () => {
  const first = `${zero} ${oid} refs/heads/main${capabilities}`;
  const bytes = list(first, `${zero} ${oid} refs/heads/a\0b`);
  expect(() => parsePreamble(bytes, limits)).toThrow('expected a ref name without NUL');
});

test('sha256 object names need the sha256 capability', () => {
  const long = 'b'.repeat(64);
  const line = `${long} ${long} refs/heads/main`;
  expect(() => parsePreamble(list(line), limits)).toThrow('40 digits');
  expect(parsePreamble(list(`${line}\0object-format=sha256`), limits)).toMatchObject({
    objectFormat: 'sha256',
  });
});

test.each([
  ['not hex', `${'g'.repeat(40)} ${oid} refs/heads/main`],
  ['no name', `${zero} ${oid}`],
  ['upper case', `${'A'.repeat(40)} ${oid} refs/heads/main`],
  ['html', '<html>'],
])('%s is malformed', (_, line) => {
  expect(() => parsePreamble(list(line), limits)).toThrow('expected "<old> <new> <ref>"');
});

test.each([
  [
    'too many refs',
    list(...Array.from({ length: 4 }, (_, n) => `${zero} ${oid} refs/heads/${n}`)),
    'at most 3 refs',
  ],
  [
    'too many bytes',
    Buffer.alloc(10_001, encodePkt(`${zero} ${oid} refs/heads/${'x'.repeat(9000)}`)),
    '10000 bytes',
  ],
  ['a bad certificate', list(`push-cert${capabilities}`, 'x\n', 'push-cert-end\n'), 'got none.'],
  ['an unknown hash', list(`${zero} ${oid} refs/heads/main\0object-format=md5`), 'sha1 or sha256'],
  [
    'too many options',
    Buffer.concat([
      list(`${zero} ${oid} refs/heads/main\0push-options`),
      list(...Array<string>(65).fill('x')),
    ]),
    'at most 64 push options',
  ],
])('%s is refused with the reason', (_, bytes, reason) => {
  expect(() => parsePreamble(bytes, limits)).toThrow(PreambleRefused);
  expect(() => parsePreamble(bytes, limits)).toThrow(reason);
});

test.each([
  ['that does not end', list(`push-cert${capabilities}`, 'x\n'), 'push-cert-end'],
  [
    'beside a ref',
    list(`push-cert${capabilities}`, 'x\n', 'push-cert-end\n', `${zero} ${oid} refs/heads/a`),
    'signed refs alone',
  ],
  [
    'beside another',
    list('push-cert\n', 'push-cert-end\n', 'push-cert\n', 'push-cert-end\n'),
    'one push certificate',
  ],
])('a certificate %s is malformed', (_, bytes, reason) => {
  expect(() => parsePreamble(bytes, limits)).toThrow(reason);
});
