import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Git } from '@sluice/testkit';

/** The pack of a commit and everything it needs. */
export async function packOf(git: Git, commit: string): Promise<Buffer> {
  const name = await git(['pack-objects', '--revs', '-q', join(git.folder, '.git', 'raw')], {
    input: `${commit}\n`,
  });
  const [file] = globSync(join(git.folder, '.git', `raw-${name}.pack`));
  return readFileSync(file!);
}
