import { isGoverning, MEMBER_PREFIX, type Member } from '@sluice/effect-spec';
import type { RefEdit } from '@sluice/ref-store';
import type { LookUpOptions } from '../git/look-up-objects.ts';
import { MEMBER_STAYS, memberNameFault, type GovernanceReader } from './governance.ts';
import type { FactsByOid } from './object-facts.ts';

/** What a push makes of members and policy. */
interface PushedGoverning {
  /** Why one may not become what the push says, by ref name. */
  faults: Map<string, string>;
  /** The others among the members, by name. What they are together is judged when the repository is locked. */
  members: Map<string, Member>;
}

/** Judges each member and policy of a push by itself: one that means nothing locks everybody out. */
export async function judgeGoverning(
  reader: GovernanceReader,
  git: Omit<LookUpOptions, 'withContent'>,
  edits: readonly RefEdit[],
  facts: FactsByOid,
): Promise<PushedGoverning> {
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
  const members = [...loaded].flatMap(([name, one]) =>
    'member' in one ? [[name.slice(MEMBER_PREFIX.length), one.member] as const] : [],
  );
  return { faults, members: new Map(members) };
}

/** Without a policy the defaults hold. */
function deletionFault(name: string): string | null {
  return name.startsWith(MEMBER_PREFIX) ? MEMBER_STAYS : null;
}

function contentFault(loaded: { problem: string } | object | undefined): string | null {
  if (loaded === undefined) return 'expected a commit';
  return 'problem' in loaded ? loaded.problem : null;
}
