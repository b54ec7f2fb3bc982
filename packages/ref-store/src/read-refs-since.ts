import { PREPARED, table, type DB } from '@sluice/db';
import { sql, type Kysely, type RawBuilder } from 'kysely';
import type { ObjectFormat, Oid } from './oid.ts';
import { endOfPrefix } from './read-refs.ts';
import type { RepoState } from './read-repo.ts';

/** A ref as it is now. */
export interface RefChange {
  name: string;
  /** Null: it is gone. */
  oid: Oid | null;
}

export interface RefsSince {
  state: RepoState;
  /** Whether a ref with the prefix `sought` exists. */
  isFound: boolean;
  /**
   * The last change of each ref that changed since, in no particular order; null: that cannot be told, since the earlier
   * state is not one of this history, or lies too far back.
   */
  changes: RefChange[] | null;
}

export interface ReadRefsSinceOptions {
  repoId: string;
  /** An earlier state of the same repository; null: none is known, and no changes are asked for. */
  since: Pick<RepoState, 'refsVersion' | 'opTip'> | null;
  /** Refs with this prefix are left out; null: none are. */
  except: string | null;
  /** Another prefix, of refs that are only looked for. */
  sought?: string;
}

/** Pushes, and edits of theirs, that are worth reading one by one; beyond that, reading all refs is. */
const PUSHES_MAX = 1000;
const CHANGES_MAX = 5000;

interface RefsSinceRow {
  object_format: string;
  head_ref: string;
  refs_version: string;
  op_seq: string;
  op_tip: Oid | null;
  is_found: boolean;
  known_seq: string | null;
  /** JSON: for each edit its name and its new value. */
  changes: string | null;
}

/**
 * A repository's state and what its log says has changed since an earlier one, in one statement and at one instant;
 * undefined if there is no such repository. Who keeps a copy of the refs brings it up to date at the price of the
 * changes. The earlier state counts only if its op record is still in the log at its place: after a failover that lost
 * pushes, the same number is another push.
 */
export async function readRefsSince(
  db: Kysely<DB>,
  options: ReadRefsSinceOptions,
): Promise<RefsSince | undefined> {
  const { rows } = await refsSinceQuery(options).execute(db);
  const [row] = rows;
  if (row === undefined) return undefined;
  const state: RepoState = {
    objectFormat: row.object_format as ObjectFormat,
    headRef: row.head_ref,
    refsVersion: BigInt(row.refs_version),
    opSeq: BigInt(row.op_seq),
    opTip: row.op_tip,
  };
  return { state, isFound: row.is_found, changes: changesOf(row, state, options.since) };
}

function changesOf(
  { known_seq: knownSeq, changes }: RefsSinceRow,
  state: RepoState,
  since: ReadRefsSinceOptions['since'],
): RefChange[] | null {
  const edits = JSON.parse(changes ?? '[]') as [name: string, oid: Oid | null][];
  if (since === null || knownSeq === null || edits.length > CHANGES_MAX) return null;
  // Each push raises both by one; if anything else did, the log does not tell what.
  if (state.refsVersion - since.refsVersion !== state.opSeq - BigInt(knownSeq)) return null;
  return [...new Map(edits)].map(([name, oid]) => ({ name, oid }));
}

/** The statement of {@link readRefsSince}. */
export function refsSinceQuery({
  repoId,
  since,
  except,
  sought,
}: ReadRefsSinceOptions): RawBuilder<RefsSinceRow> {
  return sql<RefsSinceRow>`${PREPARED}
    select r.object_format, r.head_ref, r.refs_version::text, r.op_seq::text, r.op_tip, known.seq::text as known_seq,
      ${isFound(sought)} as is_found,
      (select jsonb_agg(jsonb_build_array(e.name, e.new_oid) order by e.seq, e.reflog_id)::text
        from (
          -- Limits where planners could otherwise read a whole log: they know neither how long it is nor where it ends.
          select o.seq, l.reflog_id, l.name, l.new_oid
          from (select seq, push_id from ${table('op_record')}
              where repo_id = r.repo_id and seq > known.seq order by seq limit ${PUSHES_MAX}) o
          cross join lateral (select reflog_id, name, new_oid from ${table('reflog')}
              where push_id = o.push_id and repo_id = r.repo_id
                and (${except}::text is null or not (name >= ${except} and name < ${except === null ? null : endOfPrefix(except)}))
              offset 0) l
          limit ${CHANGES_MAX + 1}) e) as changes
    from ${table('repo')} r
    left join lateral (select seq from ${table('op_record')}
      where push_id = ${since?.opTip ?? null} and repo_id = r.repo_id and seq >= r.op_seq - ${PUSHES_MAX}::bigint
      offset 0) known on true
    where r.repo_id = ${repoId}`;
}

function isFound(sought: string | undefined): RawBuilder<unknown> {
  if (sought === undefined) return sql`false`;
  return sql`exists (select from ${table('ref')} f
    where f.repo_id = r.repo_id and f.name >= ${sought} and f.name < ${endOfPrefix(sought)})`;
}
