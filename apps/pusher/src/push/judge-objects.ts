import { DEFINITION_PREFIX, isEffectName } from '@sluice/effect-spec';
import type { RefEdit } from '@sluice/ref-store';
import type { FactsByOid } from './object-facts.ts';
import type { LoadedDefinition } from './read-definitions.ts';

/**
 * Why a ref may not name what the push says, by ref name. Git leaves these rules to whoever writes the ref: branches
 * hold commits, and a ref below `refs/meta/effects/` holds a definition that means something.
 */
export function judgeObjects(
  edits: readonly RefEdit[],
  facts: FactsByOid,
  definitions: ReadonlyMap<string, LoadedDefinition>,
): Map<string, string> {
  const faults = new Map<string, string>();
  for (const { name, to } of edits) {
    if (to === null) continue;
    const fault = judgeObject(name, to, facts, definitions);
    if (fault !== null) faults.set(name, fault);
  }
  return faults;
}

function judgeObject(
  name: string,
  oid: string,
  facts: FactsByOid,
  definitions: ReadonlyMap<string, LoadedDefinition>,
): string | null {
  const kind = facts.get(oid)?.kind ?? null;
  if (kind === null)
    return `expected ${oid.slice(0, 12)} to be in the repository or in this push, got no such object`;
  if (name.startsWith('refs/heads/'))
    return kind === 'commit' ? null : `expected a commit on a branch, got a ${kind}`;
  if (!name.startsWith(DEFINITION_PREFIX)) return null;
  if (!isEffectName(name.slice(DEFINITION_PREFIX.length))) {
    return `expected ${DEFINITION_PREFIX}<name> with one segment of at most 100 letters, digits, dots, dashes and underscores`;
  }
  if (kind !== 'commit') return `expected a commit with an effect.yaml, got a ${kind}`;
  const definition = definitions.get(oid);
  return definition !== undefined && 'problem' in definition ? definition.problem : null;
}
