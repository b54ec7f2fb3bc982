import type { LockRepoOptions, RefEdit } from '@sluice/ref-store';
import type { PushToCommit } from './push-to-commit.ts';

/** The repository that a push makes if there is none yet. */
export function newRepo({
  objectFormat,
  edits,
  repoQuota,
}: Pick<PushToCommit, 'objectFormat' | 'edits' | 'repoQuota'>): NonNullable<LockRepoOptions['create']> {
  return { objectFormat, headRef: chooseHead(edits), madeBy: repoQuota?.account ?? null };
}

/** The branch that a clone checks out: main or master if pushed, else the first one. */
function chooseHead(edits: readonly RefEdit[]): string {
  const branches = edits
    .filter(({ name, to }) => to !== null && name.startsWith('refs/heads/'))
    .map(({ name }) => name);
  const usual = ['refs/heads/main', 'refs/heads/master'].find((name) => branches.includes(name));
  return usual ?? branches[0] ?? 'refs/heads/main';
}
