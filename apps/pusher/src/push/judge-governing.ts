import { MEMBER_PREFIX } from '@sluice/effect-spec';
import type { RefEdit } from '@sluice/ref-store';
import type { LookUpOptions } from '../git/look-up-objects.ts';
import { isGoverning, MEMBER_STAYS, memberNameFault, type GovernanceReader } from './governance.ts';
import type { FactsByOid } from './object-facts.ts';

/** Why a member or a policy may not become what the push says, by ref name: one that means nothing locks everybody out. */
export async function judgeGoverning(
  reader: GovernanceReader,
  edits: readonly RefEdit[],
  facts: FactsByOid,
  git: Omit<LookUpOptions, 'withContent'>,
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
  return faults;
}

/** Without a policy the defaults hold. */
function deletionFault(name: string): string | null {
  return name.startsWith(MEMBER_PREFIX) ? MEMBER_STAYS : null;
}

function contentFault(loaded: { problem: string } | object | undefined): string | null {
  if (loaded === undefined) return 'expected a commit';
  return 'problem' in loaded ? loaded.problem : null;
}
