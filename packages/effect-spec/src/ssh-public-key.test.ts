import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { isWholePublicKey, normalizePublicKey, PUBLIC_KEY_TYPES } from './ssh-public-key.ts';

const folder = mkdtempSync(join(tmpdir(), 'sluice-key-'));
afterAll(() => rmSync(folder, { recursive: true }));

let count = 0;

/** A new key of `ssh-keygen`. */
function makeKey(type: string, bits?: string): string {
  count += 1;
  const file = join(folder, `key-${count}`);
  const size = bits === undefined ? [] : ['-b', bits];
  execFileSync('ssh-keygen', ['-q', '-t', type, ...size, '-N', '', '-f', file]);
  return normalizePublicKey(readFileSync(`${file}.pub`, 'utf8'))!;
}

/** Whether `ssh-keygen` reads each of these keys. */
function readsOutside(keys: readonly string[]): boolean[] {
  const file = join(folder, 'keys');
  writeFileSync(file, keys.map((key, index) => `${key} <${index}>\n`).join(''));
  // It says which it reads; if there is none, it fails.
  const { stdout, error } = spawnSync('ssh-keygen', ['-l', '-f', file], { encoding: 'utf8' });
  expect(error).toBeUndefined();
  return keys.map((_, index) => stdout.includes(`<${index}>`));
}

/** How `ssh-keygen` writes a key that it reads. */
function writtenOutside(key: string): string {
  const file = join(folder, 'written');
  writeFileSync(file, `${key}\n`);
  const text = execFileSync('ssh-keygen', ['-e', '-m', 'RFC4716', '-f', file], { encoding: 'utf8' });
  const base64 = text.split('\n').filter((line) => /^[A-Za-z0-9+/=]+$/.test(line));
  return `${key.split(' ')[0]} ${base64.join('')}`;
}

const partsOf = (key: string): Buffer[] => {
  const blob = Buffer.from(key.split(' ')[1]!, 'base64');
  const parts: Buffer[] = [];
  for (let at = 0; at < blob.length; at += 4 + parts.at(-1)!.length)
    parts.push(blob.subarray(at + 4, at + 4 + blob.readUInt32BE(at)));
  return parts;
};

const keyOf = (parts: readonly (Buffer | string)[], rest = Buffer.alloc(0)): string => {
  const packed = parts.map((part) => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(part.length);
    return Buffer.concat([length, Buffer.from(part as Buffer)]);
  });
  return `${parts[0]!.toString()} ${Buffer.concat([...packed, rest]).toString('base64')}`;
};

test.each([['ed25519'], ['rsa', '2048'], ['ecdsa', '256'], ['ecdsa', '521']])(
  'a key of ssh-keygen -t %s is whole, and no beginning of it is',
  (type, ...bits) => {
    const key = makeKey(type, bits[0]);
    expect(isWholePublicKey(key)).toBe(true);
    const beginnings = Array.from({ length: key.length }, (_, end) => normalizePublicKey(key.slice(0, end)));
    const cutOff = beginnings.filter((one) => one !== undefined);
    expect(cutOff.length).toBeGreaterThan(5);
    expect(cutOff.filter(isWholePublicKey)).toEqual([]);
  },
);

/** The key, and what it becomes when something is done to one of its parts behind the type. */
function variantsOf(key: string): string[] {
  const parts = partsOf(key);
  const changes: ((part: Buffer) => Buffer)[] = [
    (part) => part.subarray(0, -1),
    (part) => part.subarray(1),
    (part) => Buffer.concat([part, Buffer.from([1])]),
    (part) => Buffer.concat([Buffer.from([0]), part]),
    (part) => Buffer.concat([Buffer.from([0x80]), part]),
    (part) => Buffer.concat([part.subarray(0, 10), Buffer.from([part[10] ?? 0]), part.subarray(10)]),
    (part) => part.map((byte, index) => (index === part.length >> 1 ? byte ^ 1 : byte)) as Buffer,
    (part) => part.map((byte, index) => (index === 0 ? byte ^ 7 : byte)) as Buffer,
    () => Buffer.alloc(0),
    (part) => Buffer.alloc(part.length),
    (part) => Buffer.alloc(part.length, 0xff),
  ];
  const changed = parts.flatMap((_, at) =>
    at === 0
      ? []
      : changes.map((change) =>
          keyOf(parts.map((part, index) => (index === at ? Buffer.from(change(part)) : part))),
        ),
  );
  return [
    key,
    ...changed,
    ...[1, 3, 4, 5].map((length) => keyOf(parts, Buffer.alloc(length))),
    keyOf([...parts, '']),
    keyOf([...parts, 'more']),
    keyOf(parts.slice(0, -1)),
    ...PUBLIC_KEY_TYPES.map((type) => keyOf([type, ...parts.slice(1)])),
  ];
}

test('what ssh-keygen reads, and writes as it is, is whole, and nothing else is', () => {
  const [ed25519, ecdsa] = [makeKey('ed25519'), makeKey('ecdsa', '256')];
  const keys = [
    ed25519,
    ecdsa,
    makeKey('ecdsa', '384'),
    makeKey('ecdsa', '521'),
    makeKey('rsa', '1024'),
    makeKey('rsa', '3072'),
    // No machine without such a device makes them.
    keyOf(['sk-ssh-ed25519@openssh.com', partsOf(ed25519)[1]!, 'ssh:']),
    keyOf(['sk-ecdsa-sha2-nistp256@openssh.com', ...partsOf(ecdsa).slice(1), 'ssh:']),
    keyOf(['ssh-rsa', Buffer.from([1, 0, 1]), Buffer.concat([Buffer.from([0x7f]), Buffer.alloc(127, 1)])]),
    keyOf(['ssh-rsa', Buffer.from([1, 0, 1]), Buffer.concat([Buffer.from([0x7f]), Buffer.alloc(2047, 1)])]),
    keyOf(['ssh-rsa', Buffer.from([1, 0, 1]), Buffer.concat([Buffer.from([1]), Buffer.alloc(2048, 1)])]),
  ];
  const variants = keys.flatMap(variantsOf).filter((key) => normalizePublicKey(key) === key);
  const outside = readsOutside(variants);
  expect(variants.filter((key, index) => isWholePublicKey(key) && !outside[index])).toEqual([]);
  const notWhole = variants.filter((key, index) => outside[index] && !isWholePublicKey(key));
  const asWritten = notWhole.filter((key) => writtenOutside(key) === key);
  // With the exponent 0 nobody can sign.
  expect(asWritten.filter((key) => !key.startsWith('ssh-rsa AAAAB3NzaC1yc2EAAAAA'))).toEqual([]);
  // Of 1,023 bits, and of more than 16,384.
  expect(keys.filter((key) => !isWholePublicKey(key))).toEqual([keys[8], keys[10]]);
  expect(outside.filter((isRead) => !isRead).length).toBeGreaterThan(100);
});
