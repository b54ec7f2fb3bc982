import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { useTempFolder } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { createGit } from '../git.ts';
import { readDiskRefs } from './inspect-repository.ts';

const folder = useTempFolder();

test('a list of refs that is too long is refused as that, with what to do', async () => {
  // Some 33 MiB of lines, as git would write them.
  const line = `${'a'.repeat(40)} commit  refs/heads/${'x'.repeat(200)}`;
  writeFileSync(join(folder.path, 'git'), `#!/bin/sh\nyes '${line}' | head -n 140000\n`, { mode: 0o755 });
  const git = createGit(folder.path, { PATH: `${folder.path}:${process.env['PATH']}` });
  await expect(
    readDiskRefs({ folder: folder.path, git, objectFormat: 'sha1', hooksFolder: folder.path }),
  ).rejects.toMatchObject({
    message: expect.stringContaining('expected refs whose list is at most 32 MiB long'),
  });
});
