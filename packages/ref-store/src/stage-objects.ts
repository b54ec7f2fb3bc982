import { SluiceError, table, type DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import { hashObject } from './hash-object.ts';
import type { ObjectFormat, Oid } from './oid.ts';
import type { SmallObject } from './read-objects.ts';

/** Most bytes of a small object: 2 MiB, as the table's CHECK `small_object_is_small` says. */
export const OBJECT_BYTES_MAX = 2_097_152;

export interface StageObjectsOptions {
  repoId: string;
  objectFormat: ObjectFormat;
  objects: readonly SmallObject[];
}

/**
 * Stores git objects so that any machine can read them, and returns their ids in the same order. They are swept after
 * a while unless a push promotes them. Staging one again starts its time anew; one statement for all.
 */
export async function stageObjects(
  db: Kysely<DB>,
  { repoId, objectFormat, objects }: StageObjectsOptions,
): Promise<Oid[]> {
  const oids = objects.map(({ kind, bytes }) => {
    if (bytes.length <= OBJECT_BYTES_MAX) return hashObject(objectFormat, kind, bytes);
    throw new SluiceError(
      'invalid_argument',
      `objects: expected at most ${OBJECT_BYTES_MAX} bytes each, got a ${kind} of ${bytes.length}. Keep it in the repository instead.`,
    );
  });
  const distinct = new Map(oids.map((oid, index) => [oid, objects[index]!]));
  if (distinct.size === 0) return [];
  await sql`
    insert into ${table('small_object')} as kept (repo_id, oid, kind, bytes)
    select ${repoId}, oid, kind, bytes
    from unnest(
      ${[...distinct.keys()]}::text[],
      ${[...distinct.values()].map((object) => object.kind)}::text[],
      ${[...distinct.values()].map((object) => Buffer.from(object.bytes))}::bytea[]
    ) as given (oid, kind, bytes)
    order by oid
    on conflict (repo_id, oid) do update set created_at = now() where kept.promoted_at is null`.execute(db);
  return oids;
}
