import type { DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import { hashObject, type ObjectKind } from './hash-object.ts';
import { formatOf, type Oid } from './oid.ts';

/** A git object of at most 2 MiB. */
export interface SmallObject {
  kind: ObjectKind;
  /** Content without git's header. */
  bytes: Uint8Array;
}

/**
 * The stored objects among those asked for. Each is hashed again, so what is returned is what the id names; one that is
 * damaged counts as not stored.
 */
export async function readObjects(
  db: Kysely<DB>,
  { repoId, oids }: { repoId: string; oids: readonly Oid[] },
): Promise<Map<Oid, SmallObject>> {
  if (oids.length === 0) return new Map();
  const rows = await db
    .selectFrom('small_object')
    .select(['oid', 'kind', sql<string>`encode(bytes, 'hex')`.as('hex')])
    .where('repo_id', '=', repoId)
    .where('oid', '=', sql<string>`any(${oids}::text[])`)
    .execute();
  const found = new Map<Oid, SmallObject>();
  for (const { oid, kind, hex } of rows) {
    const bytes = Buffer.from(hex, 'hex');
    const object = { kind: kind as ObjectKind, bytes };
    if (hashObject(formatOf(oid), object.kind, bytes) === oid) found.set(oid, object);
  }
  return found;
}
