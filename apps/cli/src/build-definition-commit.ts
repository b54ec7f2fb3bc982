import { DEFINITION_FILE } from '@sluice/effect-spec';
import type { Git } from './git.ts';
import type { RemoteDefinition } from './remote-definitions.ts';
import type { Terminal } from './terminal.ts';

/** A commit whose tree holds only the definition, made of loose objects: no index, work tree or ref is touched. */
export async function buildDefinitionCommit(
  git: Git,
  env: Terminal['env'],
  name: string,
  text: Buffer,
  parent: RemoteDefinition | undefined,
): Promise<string> {
  const blob = await git.must(['hash-object', '-w', '--stdin'], { input: text });
  const tree = await git.must(['mktree'], { input: `100644 blob ${blob}\t${DEFINITION_FILE}\n` });
  const parents = parent === undefined ? [] : ['-p', parent.oid];
  const verb = parent === undefined ? 'Add' : 'Change';
  return await git.must(['commit-tree', ...parents, '-m', `${verb} effect ${name}`, tree], {
    env: await identity(git, env),
  });
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
