import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { isWholePublicKey, normalizePublicKey } from './ssh-public-key.ts';

test.each([['ed25519'], ['rsa'], ['ecdsa', '256'], ['ecdsa', '521']])(
  'a key of ssh-keygen -t %s is whole, and no beginning of it is',
  (type, ...bits) => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-key-'));
    try {
      const file = join(folder, 'key');
      const size = bits.flatMap((value) => ['-b', value]);
      execFileSync('ssh-keygen', ['-q', '-t', type, ...size, '-N', '', '-f', file]);
      const key = normalizePublicKey(readFileSync(`${file}.pub`, 'utf8'))!;
      expect(isWholePublicKey(key)).toBe(true);
      const beginnings = Array.from({ length: key.length }, (_, end) =>
        normalizePublicKey(key.slice(0, end)),
      );
      const cutOff = beginnings.filter((one) => one !== undefined);
      expect(cutOff.length).toBeGreaterThan(5);
      expect(cutOff.filter(isWholePublicKey)).toEqual([]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
);

test('the keys of security keys have one part more', () => {
  const key = (...parts: string[]): string => {
    const blob = parts.map((part) => {
      const length = Buffer.alloc(4);
      length.writeUInt32BE(part.length);
      return Buffer.concat([length, Buffer.from(part)]);
    });
    return `${parts[0]} ${Buffer.concat(blob).toString('base64')}`;
  };
  const point = 'x'.repeat(32);
  expect(isWholePublicKey(key('sk-ssh-ed25519@openssh.com', point, 'ssh:'))).toBe(true);
  expect(isWholePublicKey(key('sk-ssh-ed25519@openssh.com', point))).toBe(false);
  expect(isWholePublicKey(key('sk-ecdsa-sha2-nistp256@openssh.com', 'nistp256', point, 'ssh:'))).toBe(true);
});
