import type { RefEdit } from '@sluice/ref-store';
import { gitEnvironment } from '../git/git-environment.ts';
import type { LookUpOptions } from '../git/look-up-objects.ts';
import { NOT_DELTIFIED } from '../git/serve-configuration.ts';
import { startGit } from '../git/start-git.ts';
import { unavailable } from '../http-error.ts';
import type { FactsByOid } from './object-facts.ts';

/** For all refs of a push together: one with much history and no common one takes seconds. */
const SEARCH_MS_MAX = 60_000;

/**
 * The names among these edits, each of which moves a ref, whose new commit has the old one among its ancestors. A tag
 * counts as the commit it leads to; what leads to no commit has no ancestors.
 */
export async function findForward(
  edits: readonly RefEdit[],
  facts: FactsByOid,
  git: Omit<LookUpOptions, 'withContent'>,
): Promise<ReadonlySet<string>> {
  const forward = new Set<string>();
  if (edits.length === 0) return forward;
  const deadline = AbortSignal.timeout(SEARCH_MS_MAX);
  const known = new Map<string, boolean>();
  for (const { name, expect, to } of edits) {
    const before = facts.get(expect)?.commit ?? null;
    const after = to === null ? null : (facts.get(to)?.commit ?? null);
    if (before === null || after === null) continue;
    const pair = `${before} ${after}`;
    const isForward = known.get(pair) ?? (await isAncestor(before, after, { ...git, deadline }));
    known.set(pair, isForward);
    if (isForward) forward.add(name);
  }
  return forward;
}

async function isAncestor(
  before: string,
  after: string,
  { folder, home, deadline, ...limits }: Omit<LookUpOptions, 'withContent'> & { deadline: AbortSignal },
): Promise<boolean> {
  const git = await startGit({
    args: ['--git-dir', folder, 'merge-base', '--is-ancestor', before, after],
    env: gitEnvironment({ home, config: [['safe.directory', folder], NOT_DELTIFIED] }),
    ...limits,
  });
  const end = (): void => git.end('SIGKILL');
  deadline.addEventListener('abort', end);
  try {
    if (deadline.aborted) end();
    git.stdin.end();
    git.stdout.resume();
    const code = await git.exited;
    if (code === 0 || code === 1) return code === 0;
    throw unavailable('git could not compare histories', new Error(git.errors()));
  } finally {
    deadline.removeEventListener('abort', end);
  }
}
