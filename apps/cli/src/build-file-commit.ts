import type { Git } from './git.ts';
import type { Terminal } from './terminal.ts';

/** What a commit is made of. */
export interface FileCommit {
  readonly file: string;
  readonly text: string | Uint8Array;
  readonly message: string;
  /** The commit that it follows. */
  readonly parent: string | undefined;
}

/** A commit whose tree holds only that file, made of loose objects: no index, work tree or ref is touched. */
export async function buildFileCommit(
  git: Git,
  env: Terminal['env'],
  { file, text, message, parent }: FileCommit,
): Promise<string> {
  const blob = await git.must(['hash-object', '-w', '--stdin'], { input: text });
  const tree = await git.must(['mktree'], { input: `100644 blob ${blob}\t${file}\n` });
  const parents = parent === undefined ? [] : ['-p', parent];
  return await git.must(['commit-tree', ...parents, '-m', message, tree], { env: await identity(git, env) });
}

/** Who commits: as git is set up, or, where nobody told git, a name that says what made the commit. */
async function identity(git: Git, env: Terminal['env']): Promise<Record<string, string>> {
  const missing: Record<string, string> = {};
  for (const [key, fallback] of [
    ['name', 'sluice'],
    ['email', 'sluice@localhost'],
  ] as const) {
    const { code } = await git.run(['config', `user.${key}`]);
    for (const role of ['AUTHOR', 'COMMITTER']) {
      const variable = `GIT_${role}_${key.toUpperCase()}`;
      if (code !== 0 && (env[variable] ?? '') === '') missing[variable] = fallback;
    }
  }
  return missing;
}
