import type { DB } from '@sluice/db';
import { readRepo, refPages, type RepoState } from '@sluice/ref-store';
import type { Kysely } from 'kysely';
import { linesOf } from './packed-refs.ts';

/** The refs of a repository as they were at one instant, or a part of them. */
export interface RefLines {
  state: RepoState;
  /** A line `<oid> <name>` for each ref, in byte order of the names. */
  lines: Buffer;
}

/**
 * Reads all refs of a repository but those with a prefix (null: all); undefined if there is no such repository. As lines
 * from the first page on, since a million of them are 70 MB so, and ten times as much as rows.
 */
export async function readAllRefs(
  db: Kysely<DB>,
  repoId: string,
  options: { except: string | null },
): Promise<RefLines | undefined> {
  const snapshot = db.transaction().setIsolationLevel('repeatable read').setAccessMode('read only');
  return await snapshot.execute(async (trx) => {
    const state = await readRepo(trx, repoId);
    if (state === undefined) return undefined;
    const parts: Buffer[] = [];
    for await (const page of refPages(trx, repoId, options)) parts.push(linesOf(page));
    return { state, lines: Buffer.concat(parts) };
  });
}
