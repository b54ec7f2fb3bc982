import type { PushCertificate } from '@sluice/effect-spec';
import { sshKeygenVerifies } from '@sluice/ref-store';
import { unavailable } from '../http-error.ts';

/**
 * What is wrong with a certificate for a repository, the signature left aside. A certificate says where it was pushed
 * to; one that was made for another repository, or by another server's leave, must not count here.
 */
export function judgeCertificate(
  { pushee, pushOptions }: PushCertificate,
  push: { repoId: string; pushOptions: readonly string[] },
): string | null {
  const path = URL.parse(pushee)?.pathname.replace(/\/$/, '');
  if (path !== `/${push.repoId}.git` && path !== `/_sha256/${push.repoId}.git`) {
    return 'the push certificate is for another repository';
  }
  const isSame =
    pushOptions.length === push.pushOptions.length &&
    pushOptions.every((option, index) => option === push.pushOptions[index]);
  return isSame ? null : 'the push options are not those that were signed';
}

/** Whether `key` made the certificate's signature. */
export async function isSignedBy(certificate: PushCertificate, key: string): Promise<boolean> {
  try {
    return await sshKeygenVerifies(certificate, key);
  } catch (error) {
    throw unavailable('ssh-keygen could not check the signature', error);
  }
}
