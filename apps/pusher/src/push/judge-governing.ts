import { hasAdmin, isGoverning, MEMBER_PREFIX } from '@sluice/effect-spec';
import type { RefEdit } from '@sluice/ref-store';
import type { LookUpOptions } from '../git/look-up-objects.ts';
import { MEMBER_STAYS, memberNameFault, type GovernanceReader } from './governance.ts';
import type { FactsByOid } from './object-facts.ts';

/** What a push is judged with that moves members or the policy. */
interface GoverningContext {
  reader: GovernanceReader;
  git: Omit<LookUpOptions, 'withContent'>;
  /** Whether there ever was a member. Asked only about a push of members. */
  hadMembers: () => Promise<boolean>;
}

/**
 * Why a member or a policy may not become what the push says, by ref name: one that means nothing locks everybody out,
 * and so do first members without an admin.
 */
export async function judgeGoverning(
  { reader, git, hadMembers }: GoverningContext,
  edits: readonly RefEdit[],
  facts: FactsByOid,
): Promise<Map<string, string>> {
  const faults = new Map<string, string>();
  const governing = edits.filter(({ name }) => isGoverning(name));
  const refs = governing.flatMap(({ name, to }) =>
    to !== null && facts.get(to)?.kind === 'commit' ? [{ name, oid: to }] : [],
  );
  const loaded = await reader.load(refs, git);
  for (const { name, to } of governing) {
    const fault =
      to === null ? deletionFault(name) : (memberNameFault(name) ?? contentFault(loaded.get(name)));
    if (fault !== null) faults.set(name, fault);
  }
  const members = [...loaded].flatMap(([name, one]) => ('member' in one ? [{ name, ...one.member }] : []));
  // Members are never gone again, so an answer from before the lock can be too old in one way only, and then refuses.
  if (members.length > 0 && !hasAdmin(members) && !(await hadMembers()))
    for (const { name } of members) faults.set(name, NO_ADMIN_YET);
  return faults;
}

const NO_ADMIN_YET =
  'expected an admin among the first members: without one nobody can push here any more. Push that member before the others, or together with them';

/** Without a policy the defaults hold. */
function deletionFault(name: string): string | null {
  return name.startsWith(MEMBER_PREFIX) ? MEMBER_STAYS : null;
}

function contentFault(loaded: { problem: string } | object | undefined): string | null {
  if (loaded === undefined) return 'expected a commit';
  return 'problem' in loaded ? loaded.problem : null;
}
