import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * Makes an empty folder into a git folder without refs and objects, as `git init --bare` does but without a process.
 * Its attributes switch off all filters and conversions, and are stronger than a tree's own.
 */
export async function createGitDir(folder: string, objectFormat: 'sha1' | 'sha256'): Promise<void> {
  await Promise.all(['info', 'objects', 'refs'].map((name) => mkdir(join(folder, name))));
  const extension = objectFormat === 'sha256' ? '[extensions]\nobjectFormat = sha256\n' : '';
  await Promise.all([
    writeFile(join(folder, 'HEAD'), 'ref: refs/heads/none\n'),
    writeFile(join(folder, 'config'), `${CONFIGURATION}${extension}`),
    writeFile(
      join(folder, 'info', 'attributes'),
      '* -text -eol -crlf -ident -filter -working-tree-encoding\n',
    ),
  ]);
}

const CONFIGURATION = `[core]
repositoryFormatVersion = 1
bare = true
symlinks = true
fileMode = true
autocrlf = false
[checkout]
workers = 1
`;
