import { createHash } from 'node:crypto';
import type { ObjectFormat, Oid } from './oid.ts';

/** Git object types. */
export type ObjectKind = 'commit' | 'tree' | 'blob' | 'tag';

/** The id git gives to an object: the hash of `<kind> <length>\0<bytes>`. */
export function hashObject(format: ObjectFormat, kind: ObjectKind, bytes: Uint8Array): Oid {
  return createHash(format).update(`${kind} ${bytes.length}\0`).update(bytes).digest('hex');
}
