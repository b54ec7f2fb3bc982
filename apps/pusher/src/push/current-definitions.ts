import { DEFINITION_PREFIX, type CurrentDefinition } from '@sluice/effect-spec';
import type { AppliedEdit, RefRow } from '@sluice/ref-store';
import type { PushToCommit } from './push-to-commit.ts';
import type { PushStory } from './explain-push.ts';
import { PushRefused } from './push-refused.ts';
import { DEFINITIONS_MAX } from './read-definitions.ts';

/** The refs of definitions as they are after the push: one pushed together with a branch already applies to it. */
export function afterPush(before: readonly RefRow[], applied: readonly AppliedEdit[]): RefRow[] {
  const after = new Map(before.map(({ name, oid }) => [name, oid]));
  for (const { name, newOid } of applied) {
    if (!name.startsWith(DEFINITION_PREFIX)) continue;
    if (newOid === null) after.delete(name);
    else after.set(name, newOid);
  }
  const refs = [...after].map(([name, oid]) => ({ name, oid }));
  return refs.toSorted((a, b) => Buffer.compare(Buffer.from(a.name), Buffer.from(b.name)));
}

/** What they define, and which of them mean nothing. */
export async function readCurrentDefinitions(
  push: Pick<PushToCommit, 'edits' | 'definitionsAt'>,
  rows: readonly RefRow[],
): Promise<{ definitions: CurrentDefinition[]; broken: PushStory['broken'] }> {
  if (rows.length === 0) return { definitions: [], broken: [] };
  const hasPushedOne = push.edits.some(({ name, to }) => to !== null && name.startsWith(DEFINITION_PREFIX));
  if (rows.length > DEFINITIONS_MAX && hasPushedOne) {
    throw new PushRefused(
      `expected at most ${DEFINITIONS_MAX} effect definitions in a repository, got ${rows.length}; delete some first`,
    );
  }
  const loaded = await push.definitionsAt(rows.map(({ oid }) => oid));
  const definitions: CurrentDefinition[] = [];
  const broken: { name: string; problem: string }[] = [];
  for (const row of rows) {
    const name = row.name.slice(DEFINITION_PREFIX.length);
    const found = loaded.get(row.oid)!;
    if ('definition' in found) definitions.push({ name, oid: row.oid, definition: found.definition });
    else broken.push({ name, problem: found.problem });
  }
  return { definitions, broken };
}
