import type { DB } from '@sluice/db';
import type { CompiledQuery, Transaction } from 'kysely';
import type { NamedRefs } from './judge-edits.ts';
import { lockRepoWith, type LockedRepo, type LockRepoOptions } from './lock-repo.ts';
import { namedRefsQuery, toNamedRefs, type NamedRefRow } from './read-named-refs.ts';
import type { RefEdit } from './ref-edit.ts';

export interface LockForPushOptions {
  repoId: string;
  /** Create it if it does not exist. */
  create: LockRepoOptions['create'] | undefined;
  edits: readonly RefEdit[];
  /** What to send ahead of the lock. */
  before: readonly CompiledQuery<unknown>[];
  /** What else to read once it is held. */
  after: readonly CompiledQuery<unknown>[];
}

/** A repository that is locked, and what was read then. */
export interface LockedForPush {
  /** Undefined: there is no such repository. */
  repo: LockedRepo | undefined;
  /** What {@link commitPush} has to know of the refs that the edits name. */
  named: NamedRefs;
  /** The rows of each statement in `after`. */
  rows: unknown[][];
}

/** Locks a repository and reads all that decides about a push, in one round trip. */
export async function lockForPush(
  trx: Transaction<DB>,
  { repoId, create, edits, before, after }: LockForPushOptions,
): Promise<LockedForPush> {
  const named = namedRefsQuery(repoId, edits).compile(trx);
  const { repo, rows } = await lockRepoWith(trx, { repoId, create }, [named, ...after], before);
  return { repo, named: toNamedRefs(rows[0] as NamedRefRow[]), rows: rows.slice(1) };
}
