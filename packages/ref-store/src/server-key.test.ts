import { execFileSync } from 'node:child_process';
import { chmod, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeTempFolder } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { loadServerKey } from './server-key.ts';

test('the first use makes the key, later ones load it, and only the owner can read it', async () => {
  using folder = makeTempFolder();
  const path = join(folder.path, 'deep', 'server.key');
  const first = await loadServerKey(path);
  expect(first.publicKey).toMatch(/^ssh-ed25519 [A-Za-z0-9+/=]+$/);
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  expect((await loadServerKey(path)).publicKey).toBe(first.publicKey);
  expect(await readdir(join(folder.path, 'deep'))).toEqual(['server.key']);
});

test('processes that start at once agree on one key', async () => {
  using folder = makeTempFolder();
  const path = join(folder.path, 'key');
  const keys = await Promise.all(Array.from({ length: 8 }, () => loadServerKey(path)));
  expect(new Set(keys.map((key) => key.publicKey)).size).toBe(1);
  expect(await readdir(folder.path)).toEqual(['key']);
});

test('a key that others can read is refused', async () => {
  using folder = makeTempFolder();
  const path = join(folder.path, 'key');
  await loadServerKey(path);
  await chmod(path, 0o640);
  await expect(loadServerKey(path)).rejects.toMatchObject({
    code: 'server_key_unusable',
    message: /0640.*chmod 600/,
  });
});

test('a key in OpenSSH format is used and kept as it is', async () => {
  using folder = makeTempFolder();
  const path = join(folder.path, 'key');
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', 'me', '-f', path]);
  const before = await readFile(path, 'utf8');
  const key = await loadServerKey(path);
  expect(`${key.publicKey} me\n`).toBe(await readFile(`${path}.pub`, 'utf8'));
  expect(execFileSync('ssh-keygen', ['-l', '-f', `${path}.pub`], { encoding: 'utf8' })).toContain(
    key.fingerprint,
  );
  expect(await readFile(path, 'utf8')).toBe(before);
});

test.each([
  ['nonsense', () => 'not a key\n'],
  ['an empty file', () => ''],
  [
    'a cut key',
    () =>
      '-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmU=\n-----END OPENSSH PRIVATE KEY-----\n',
  ],
  ['an RSA key', (folder: string) => keygen(folder, ['-t', 'rsa', '-b', '2048', '-m', 'PEM', '-N', ''])],
  ['a key with a passphrase', (folder: string) => keygen(folder, ['-t', 'ed25519', '-N', 'secret'])],
])('%s is refused and left alone', async (_what, make) => {
  using folder = makeTempFolder();
  const path = join(folder.path, 'key');
  await writeFile(path, await make(folder.path), { mode: 0o600 });
  const before = await readFile(path, 'utf8');
  await expect(loadServerKey(path)).rejects.toMatchObject({ code: 'server_key_unusable' });
  expect(await readFile(path, 'utf8')).toBe(before);
});

async function keygen(folder: string, args: string[]): Promise<string> {
  const path = join(folder, 'made');
  execFileSync('ssh-keygen', ['-q', ...args, '-f', path]);
  return await readFile(path, 'utf8');
}
