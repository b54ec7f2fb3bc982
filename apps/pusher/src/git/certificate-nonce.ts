import { createHash, createHmac } from 'node:crypto';
import type { ObjectFormat, ServerKey } from '@sluice/ref-store';

/**
 * How old the nonce of a push certificate may be: from the advertisement to the moment git has the certificate, which
 * includes a passphrase or a touch of a key, but not the upload.
 */
export const NONCE_SECONDS_MAX = 600;

/**
 * What git makes and checks nonces with, together with the path of the repository. It follows from the server's key, so
 * it is the same after a restart, and nobody else can make it: the key makes one signature of a text, and this one is
 * never shown.
 */
export function nonceSeed(key: ServerKey): string {
  return createHash('sha256')
    .update(key.sign(Buffer.from('sluice: seed of certificate nonces')))
    .digest('hex');
}

/**
 * The nonce that `git receive-pack` would show for the repository in `folder`, and that it checks: the time, and a hash
 * of it, the path as git is given it, and the seed, which git takes for the text and not for the key.
 */
export function makeNonce(
  seed: string,
  { folder, objectFormat, seconds }: { folder: string; objectFormat: ObjectFormat; seconds: number },
): string {
  return `${seconds}-${createHmac(objectFormat, `${folder}:${seconds}`).update(seed).digest('hex')}`;
}

/** Why a nonce does not count, by what git says of it; null: it does. */
export function nonceFault(status: string): string | null {
  if (status === 'OK') return null;
  if (status === 'SLOP') {
    return `the push certificate is older than ${NONCE_SECONDS_MAX} seconds; push again`;
  }
  return 'the push certificate was not made for this repository on this server; push again';
}
