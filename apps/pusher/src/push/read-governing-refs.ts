import { PREPARED, type DB } from '@sluice/db';
import { CONFIG_REF, MEMBER_PREFIX } from '@sluice/effect-spec';
import type { RefRow } from '@sluice/ref-store';
import { sql, type Kysely } from 'kysely';

/** What decides who may push, as refs. */
export interface GoverningRefs {
  config: RefRow | null;
  /** By name. */
  members: readonly RefRow[];
  /** Whether there ever was a member, those that are there now included. */
  hadMembers: boolean;
}

/** The slash at the end of the prefix, and what comes after a slash. */
const AFTER_MEMBERS = `${MEMBER_PREFIX.slice(0, -1)}0`;

/** Reads them in one statement of three index probes, however many refs the repository has. */
export async function readGoverningRefs(
  db: Kysely<DB>,
  options: { repoId: string; membersMax: number },
): Promise<GoverningRefs> {
  return toGoverningRefs(await governingRefsQuery(db, options).execute());
}

/** A row of {@link governingRefsQuery}. */
export interface GoverningRow {
  name: string;
  oid: string | null;
}

/** What the statement's rows say. */
export function toGoverningRefs(rows: readonly GoverningRow[]): GoverningRefs {
  const refs = rows.flatMap(({ name, oid }) => (oid === null ? [] : [{ name, oid }]));
  const members = refs.filter(({ name }) => name !== CONFIG_REF);
  return {
    config: refs.find(({ name }) => name === CONFIG_REF) ?? null,
    members,
    hadMembers: rows.length > refs.length || members.length > 0,
  };
}

/** The refs, one more than the most members, and a row without an OID if the reflog knows of a member. */
export function governingRefsQuery(
  db: Kysely<DB>,
  { repoId, membersMax }: { repoId: string; membersMax: number },
) {
  const refs = db
    .selectFrom('ref')
    .modifyFront(PREPARED)
    .select(['name', sql<string | null>`oid`.as('oid')])
    .where('repo_id', '=', repoId);
  const members = refs
    .where('name', '>=', MEMBER_PREFIX)
    .where('name', '<', AFTER_MEMBERS)
    .orderBy('name')
    .limit(membersMax + 1);
  const past = db
    .selectFrom('reflog')
    .select(['name', sql<string | null>`null`.as('oid')])
    .where('repo_id', '=', repoId)
    .where('name', '>=', MEMBER_PREFIX)
    .where('name', '<', AFTER_MEMBERS)
    .limit(1);
  return refs
    .where('name', '=', CONFIG_REF)
    .unionAll(db.selectFrom(members.as('member')).selectAll())
    .unionAll(db.selectFrom(past.as('past')).selectAll());
}
