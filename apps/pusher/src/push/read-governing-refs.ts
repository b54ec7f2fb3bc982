import type { DB } from '@sluice/db';
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
  { repoId, membersMax }: { repoId: string; membersMax: number },
): Promise<GoverningRefs> {
  const refs = db.selectFrom('ref').select(['name', sql<string | null>`oid`.as('oid')]);
  const config = refs.where('repo_id', '=', repoId).where('name', '=', CONFIG_REF);
  const members = refs
    .where('repo_id', '=', repoId)
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
  const rows = await config
    .unionAll(db.selectFrom(members.as('member')).selectAll())
    .unionAll(db.selectFrom(past.as('past')).selectAll())
    .execute();
  const found = rows.flatMap(({ name, oid }) => (oid === null ? [] : [{ name, oid }]));
  const memberRefs = found.filter(({ name }) => name !== CONFIG_REF);
  return {
    config: found.find(({ name }) => name === CONFIG_REF) ?? null,
    members: memberRefs,
    hadMembers: rows.length > found.length || memberRefs.length > 0,
  };
}

/** Whether signatures count in a repository. */
export async function hasMembers(db: Kysely<DB>, repoId: string): Promise<boolean> {
  return (await readGoverningRefs(db, { repoId, membersMax: 0 })).members.length > 0;
}
