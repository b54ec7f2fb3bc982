import { access } from 'node:fs/promises';
import { join } from 'node:path';
import type { DB } from '@sluice/db';
import { readRefs, type RefRow } from '@sluice/ref-store';
import type { Kysely } from 'kysely';
import { lookUpObjects } from '../git/look-up-objects.ts';

/** How a repository's refs compare with its object store. */
export interface RefCheck {
  /** How many refs there are. */
  refs: number;
  /** How many of them name an object that is not there. */
  lost: number;
  /** The first of those. */
  example: RefRow | null;
}

/** Looks for the object of every ref, in one git process. Ends at objects that refs name; it does not walk from there. */
export async function findLostRefs(
  db: Kysely<DB>,
  repoId: string,
  { folder, home }: { folder: string; home: string },
): Promise<RefCheck> {
  const refs = await readRefs(db, repoId);
  // Git does not even start without this folder.
  const isThere = await access(join(folder, 'objects')).then(
    () => true,
    () => false,
  );
  if (!isThere) return summarise(refs, refs);
  const oids = [...new Set(refs.map(({ oid }) => oid))];
  const found = await lookUpObjects(oids, { folder, home });
  const missing = new Set(oids.filter((_, index) => found[index] === null));
  return summarise(
    refs,
    refs.filter(({ oid }) => missing.has(oid)),
  );
}

function summarise(refs: readonly RefRow[], lost: readonly RefRow[]): RefCheck {
  return { refs: refs.length, lost: lost.length, example: lost[0] ?? null };
}
