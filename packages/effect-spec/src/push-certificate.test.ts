import { expect, test } from 'vitest';
import { parsePushCertificate } from './push-certificate.ts';

const zero = '0'.repeat(40);
const oid = 'a'.repeat(40);
const limits = { refsMax: 3 };
const SIGNATURE = '-----BEGIN SSH SIGNATURE-----\nU1NIU0lH\nAAAA\n-----END SSH SIGNATURE-----\n';
const HEADER =
  'certificate version 0.1\npusher key 1 +0000\npushee http://host/a.git\nnonce 1-ab\npush-option x=y z\n';
const SIGNED = `${HEADER}\n${zero} ${oid} refs/heads/a\n${oid} ${zero} refs/heads/b c\n`;

const parse = (text: string) => parsePushCertificate(Buffer.from(text, 'latin1'), limits);

test('a certificate is what is signed, its signature, and what git reads from it', () => {
  expect(parse(SIGNED + SIGNATURE)).toEqual({
    bytes: Buffer.from(SIGNED + SIGNATURE),
    signed: Buffer.from(SIGNED),
    signature: SIGNATURE,
    pushee: 'http://host/a.git',
    nonce: '1-ab',
    pushOptions: ['x=y z'],
    commands: [
      { oldOid: zero, newOid: oid, name: Buffer.from('refs/heads/a') },
      { oldOid: oid, newOid: zero, name: Buffer.from('refs/heads/b c') },
    ],
  });
});

test('cut anywhere it is none, but for the last line end', () => {
  const whole = SIGNED + SIGNATURE;
  for (let cut = 0; cut < whole.length - 1; cut += 1)
    expect([cut, typeof parse(whole.slice(0, cut))]).toEqual([cut, 'string']);
  expect(typeof parse(whole.slice(0, -1))).toBe('object');
});

test.each([
  ['no signature', SIGNED, 'one signature, got none'],
  ['two signatures', SIGNED + SIGNATURE + SIGNATURE, 'one signature, got several'],
  ['a marker of another kind', `-----BEGIN PGP SIGNATURE-----\n${SIGNED}${SIGNATURE}`, 'got several'],
  [
    'a PGP signature',
    `${SIGNED}-----BEGIN PGP SIGNATURE-----\nAAAA\n-----END PGP SIGNATURE-----\n`,
    'SSH signature',
  ],
  [
    'text after the signature',
    `${SIGNED}${SIGNATURE}${zero} ${oid} refs/heads/z\n`,
    'ends with an SSH signature',
  ],
  ['NUL', SIGNED.replace('b c', 'b\0c') + SIGNATURE, 'without NUL'],
  ['another version', SIGNED.replace('0.1', '0.2') + SIGNATURE, 'version 0.1'],
  ['two URLs', SIGNED.replace('nonce', 'pushee http://other\nnonce') + SIGNATURE, 'once each'],
  ['an unknown field', SIGNED.replace('nonce', 'notes x\nnonce') + SIGNATURE, 'once each'],
  ['no URL', SIGNED.replace(/pushee .*\n/, '') + SIGNATURE, 'names the URL'],
  ['no nonce', SIGNED.replace(/nonce .*\n/, '') + SIGNATURE, 'the nonce of this server'],
  ['an option that is not UTF-8', SIGNED.replace('x=y z', '\xff') + SIGNATURE, 'push options in UTF-8'],
  ['no refs', HEADER + SIGNATURE, 'a list of refs'],
  ['an empty list', `${HEADER}\n${SIGNATURE}`, '"<old> <new> <ref>"'],
  [
    'a blank line among the refs',
    SIGNED.replace(`\n${oid}`, `\n\n${oid}`) + SIGNATURE,
    '"<old> <new> <ref>"',
  ],
  ['too many refs', `${SIGNED}${`${zero} ${oid} refs/heads/x\n`.repeat(2)}${SIGNATURE}`, 'at most 3 refs'],
])('%s is refused', (_, text, reason) => {
  expect(parse(text)).toEqual(expect.stringContaining(reason));
});
