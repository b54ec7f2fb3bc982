import type { Oid } from './oid.ts';
import type { AppliedEdit, RefEdit, Refusal } from './ref-edit.ts';

/** What the repository holds, as far as a push touches it. */
export interface NamedRefs {
  /** Refs that the push names, and existing refs whose name is a directory of a name the push sets. */
  readonly current: ReadonlyMap<string, Oid>;
  /** For a name that the push creates: a ref below it that exists and that the push does not delete. */
  readonly below: ReadonlyMap<string, string>;
}

/** Why a ref is refused whose only fault is its company. */
export const NOT_APPLIED = 'not applied: another ref of this push was refused';

export type Judgement = { applied: AppliedEdit[] } | { refusals: Refusal[] };

/**
 * Decides a push, whole: either every edit holds, and those that change something are returned, or none does, and
 * every ref has its reason.
 */
export function judgeEdits(edits: readonly RefEdit[], refs: NamedRefs): Judgement {
  const set = new Set(edits.filter((edit) => edit.to !== null).map((edit) => edit.name));
  const deleted = new Set(edits.filter((edit) => edit.to === null).map((edit) => edit.name));
  const conflicts = findConflicts(edits, refs, set, deleted);
  const faults = new Map<string, Omit<Refusal, 'name'>>();
  const applied: AppliedEdit[] = [];
  for (const edit of edits) {
    const oldOid = refs.current.get(edit.name) ?? null;
    const stale = explainStale(edit, oldOid);
    const conflict = conflicts.get(edit.name);
    if (stale !== null) faults.set(edit.name, { code: 'stale', reason: stale });
    else if (conflict !== undefined) faults.set(edit.name, { code: 'conflict', reason: conflict });
    else if (oldOid !== edit.to) applied.push({ name: edit.name, oldOid, newOid: edit.to });
  }
  return faults.size === 0 ? { applied } : { refusals: refuseAll(edits, faults) };
}

/** A refusal for every ref: those at fault with their reason, the others because a push is applied whole or not at all. */
export function refuseAll(
  edits: readonly RefEdit[],
  faults: ReadonlyMap<string, Omit<Refusal, 'name'>>,
): Refusal[] {
  const others = {
    code: 'not_applied',
    reason: NOT_APPLIED,
  } as const;
  return edits.map((edit) => ({ name: edit.name, ...(faults.get(edit.name) ?? others) }));
}

/** The names that would have to be directories for this ref to exist: `refs/heads` for `refs/heads/a`. */
export function directoriesOf(name: string): string[] {
  const directories: string[] = [];
  // `refs` itself is no ref name.
  for (let slash = name.indexOf('/', 'refs/'.length); slash !== -1; slash = name.indexOf('/', slash + 1)) {
    directories.push(name.slice(0, slash));
  }
  return directories;
}

/** A name cannot be a ref and a directory of refs at once: git's files, and so every clone, could not hold both. */
function findConflicts(
  edits: readonly RefEdit[],
  refs: NamedRefs,
  set: ReadonlySet<string>,
  deleted: ReadonlySet<string>,
): Map<string, string> {
  const conflicts = new Map<string, string>();
  for (const { name, to } of edits) {
    if (to === null) continue;
    for (const directory of directoriesOf(name)) {
      if (set.has(directory)) {
        conflicts.set(name, `conflicts with ${directory} in the same push`);
        conflicts.set(directory, `conflicts with ${name} in the same push`);
      } else if (refs.current.has(directory) && !deleted.has(directory)) {
        conflicts.set(name, `conflicts with the existing ref ${directory}`);
      }
    }
    const below = refs.below.get(name);
    if (below !== undefined) conflicts.set(name, `conflicts with the existing ref ${below}`);
  }
  return conflicts;
}

function explainStale({ expect }: RefEdit, current: Oid | null): string | null {
  if (expect === 'any' || expect === (current ?? 'absent')) return null;
  const wanted = expect === 'absent' ? 'no such ref' : expect.slice(0, 12);
  const got = current === null ? 'it does not exist' : `it is ${current.slice(0, 12)}`;
  return `stale: expected ${wanted}, but ${got}; fetch and try again`;
}
