import { chmod, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { useTempFolder } from '@sluice/testkit';
import { afterEach, beforeAll, expect, test, vi } from 'vitest';
import { newKey } from '../test/push-fixture.ts';
import type { ServerKey } from './server-key.ts';
import { sshKeygenVerifies } from './ssh-keygen.ts';

const temporary = useTempFolder();
const signed = Buffer.from('what was signed\n');
let key: ServerKey;
beforeAll(async () => {
  key = await newKey();
});
afterEach(() => void vi.unstubAllEnvs());

/** Makes a program of these lines the only ssh-keygen. */
async function replaceSshKeygen(script: string): Promise<void> {
  const file = join(temporary.path, 'ssh-keygen');
  await writeFile(file, `#!/bin/sh\n${script}\n`);
  await chmod(file, 0o755);
  vi.stubEnv('PATH', temporary.path);
}

test('a signature is good for what was signed, with the key that signed, and leaves no files behind', async () => {
  vi.stubEnv('TMPDIR', temporary.path);
  const before = await readdir(temporary.path);
  const signature = key.sign(signed);
  expect(await sshKeygenVerifies({ signed, signature }, key.publicKey)).toBe(true);
  expect(await sshKeygenVerifies({ signed: Buffer.from('else\n'), signature }, key.publicKey)).toBe(false);
  expect(await sshKeygenVerifies({ signed, signature }, (await newKey()).publicKey)).toBe(false);
  expect(await sshKeygenVerifies({ signed, signature: 'none' }, key.publicKey)).toBe(false);
  expect(await readdir(temporary.path)).toEqual(before);
});

test.each([
  ['is not there', null, 'spawn ssh-keygen ENOENT'],
  ['is too old to verify', 'exit 1', 'exit code 1'],
  ['is killed', 'kill -TERM $$', 'its end by SIGTERM'],
  ['hangs', 'exec /bin/sleep 600', 'no answer within 500 ms'],
])('an ssh-keygen that %s is an error, and no judgement', async (_, script, got) => {
  if (script === null) vi.stubEnv('PATH', '/nonexistent');
  else await replaceSshKeygen(script);
  const text = { signed, signature: key.sign(signed) };
  // The others have the time that they need on a busy machine.
  const limit = got.includes('500 ms') ? { limitMs: 500 } : {};
  await expect(sshKeygenVerifies(text, key.publicKey, limit)).rejects.toMatchObject({
    code: 'ssh_keygen_unusable',
    what: `ssh-keygen: expected it to say whether a signature is good, got ${got}.`,
  });
});
