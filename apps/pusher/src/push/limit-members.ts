import { MEMBER_PREFIX } from '@sluice/effect-spec';
import type { RefEdit, RefRow } from '@sluice/ref-store';
import { MEMBERS_BYTES_MAX, MEMBERS_MAX } from './governance.ts';

/**
 * Why a push would make too much of members, by ref name: what nobody can read locks everybody out. Judged while the
 * repository is locked, with the members that are there; what makes it no more than it was is taken.
 */
export async function limitMembers(
  before: readonly RefRow[],
  edits: readonly RefEdit[],
  bytesOf: (members: readonly RefRow[]) => Promise<number>,
): Promise<Map<string, string>> {
  const pushed = edits.flatMap(({ name, to }) =>
    to !== null && name.startsWith(MEMBER_PREFIX) ? [[name, to] as const] : [],
  );
  if (pushed.length === 0) return new Map();
  const known = new Map(before.map(({ name, oid }) => [name, oid]));
  const after = [...new Map([...known, ...pushed])].map(([name, oid]) => ({ name, oid }));
  if (after.length > MEMBERS_MAX) {
    const made = pushed.map(([name]) => name).filter((name) => !known.has(name));
    const reason = `expected at most ${MEMBERS_MAX} members in a repository, got ${after.length} with this push; give its keys to a member who is there, who may have 50`;
    return new Map(made.map((name) => [name, reason]));
  }
  const bytes = await bytesOf(after);
  if (bytes <= MEMBERS_BYTES_MAX || bytes <= (await bytesOf(before))) return new Map();
  const reason = `expected at most ${MEMBERS_BYTES_MAX} bytes in all files of members together, got ${bytes} with this push; take comments out of them`;
  return new Map(pushed.map(([name]) => [name, reason]));
}
