import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Git } from '@sluice/testkit';

/** The pack of a commit and everything it needs, or of exactly the objects that are named. */
export async function packOf(git: Git, commit: string, ...only: string[]): Promise<Buffer> {
  const which = only.length === 0 ? ['--revs'] : [];
  const name = await git(['pack-objects', ...which, '-q', join(git.folder, '.git', 'raw')], {
    input: [commit, ...only, ''].join('\n'),
  });
  const [file] = globSync(join(git.folder, '.git', `raw-${name}.pack`));
  return readFileSync(file!);
}
