import type { Oid } from './oid.ts';
import { readOpRecord, type SignedRecord } from './read-op-record.ts';
import { sshKeygenVerifies } from './ssh-keygen.ts';

export type OpRecordCheck = ({ status: 'valid' } & SignedRecord) | { status: 'invalid'; reason: string };

export interface VerifyOpRecordOptions {
  pushId: Oid;
  /** Bytes of the commit, signature included. */
  body: Uint8Array;
  /** Keys that may have signed it: `ssh-ed25519 AAAA…`, comments allowed. */
  trustedKeys: readonly string[];
}

/**
 * Checks that the bytes are the op record that the push id names, and that one of the trusted keys signed them:
 * `ssh-keygen` says so, not the code that signs. Compare `parent`, `repoId` and `seq` with what the log should hold.
 * Throws `ssh_keygen_unusable`.
 */
export async function verifyOpRecord(options: VerifyOpRecordOptions): Promise<OpRecordCheck> {
  const record = readOpRecord(options);
  if (typeof record === 'string') return { status: 'invalid', reason: record };
  const { publicKey } = record;
  const isTrusted = options.trustedKeys.some(
    (key) => key.trim().split(/\s+/).slice(0, 2).join(' ') === publicKey,
  );
  if (!isTrusted) return { status: 'invalid', reason: 'the record is signed by a key that is not trusted' };
  if (await sshKeygenVerifies(record, publicKey)) return { status: 'valid', ...record };
  return { status: 'invalid', reason: 'the signature does not match the record' };
}
