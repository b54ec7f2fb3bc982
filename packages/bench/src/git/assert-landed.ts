import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { runGit } from './run-git.ts';

/** Throws unless every remote shows the commit as its branch `main`. */
export async function assertShown(remotes: readonly string[], commit: string): Promise<void> {
  for (const remote of remotes) {
    const shown = await runGit('.', ['ls-remote', remote, 'refs/heads/main']);
    if (shown !== `${commit}\trefs/heads/main`)
      throw new Error(`expected main of ${remote} to be ${commit}, got ${shown}`);
  }
}

/** Throws unless there are so many bare repositories below a folder, and each has all that the commit reaches. */
export async function assertStored(folder: string, repos: number, commit: string): Promise<void> {
  const found = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.git/objects/pack'),
  );
  if (found.length !== repos)
    throw new Error(`expected ${repos} repositories in ${folder}, got ${found.length}`);
  for (const name of found) {
    const args = ['-c', 'safe.directory=*', 'rev-list', '--objects', '--quiet', commit];
    await runGit(join(folder, name, '../..'), args);
  }
}
