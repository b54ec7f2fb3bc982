import { parsePushCertificate } from '@sluice/effect-spec';
import { makeCertificate, makeKey, useTempFolder } from '@sluice/testkit';
import { expect, onTestFinished, test, vi } from 'vitest';
import { isSignedBy } from './verify-certificate.ts';

const temporary = useTempFolder();

test('where ssh-keygen gives no answer, the client is told to try again, and not that its signature is bad', async () => {
  const [key, other] = [makeKey(temporary.path, 'one'), makeKey(temporary.path, 'other')];
  const text = makeCertificate({
    pushee: 'http://host/acme/api.git',
    nonce: '1-ab',
    commands: [{ new: '1'.repeat(40), name: 'refs/heads/main' }],
    key,
  });
  const certificate = parsePushCertificate(Buffer.from(text), { refsMax: 1 });
  if (typeof certificate === 'string') throw new Error(certificate);
  expect(await isSignedBy(certificate, key.publicKey)).toBe(true);
  expect(await isSignedBy(certificate, other.publicKey)).toBe(false);
  vi.stubEnv('PATH', '/nonexistent');
  onTestFinished(() => void vi.unstubAllEnvs());
  await expect(isSignedBy(certificate, key.publicKey)).rejects.toMatchObject({
    status: 503,
    message: 'ssh-keygen could not check the signature. Try again in a moment',
    cause: expect.objectContaining({ code: 'ssh_keygen_unusable' }),
  });
});
