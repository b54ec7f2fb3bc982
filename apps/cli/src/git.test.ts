import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { useTempFolder } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { createGit } from './git.ts';

const temporary = useTempFolder();

/** A program called git that does as the shell text says. */
function gitThat(text: string) {
  const folder = temporary.path;
  writeFileSync(join(folder, 'git'), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  return createGit(folder, { PATH: `${folder}:${process.env['PATH']}` });
}

test('git that takes longer than it was given is ended', async () => {
  const git = gitThat('exec sleep 600');
  await expect(git.must(['cat-file'], { timeoutMs: 100 })).rejects.toThrow(
    'git cat-file failed: it took more than 0.1 s',
  );
});

test('git that ends in time is not', async () => {
  const git = gitThat('printf "\\377\\n"');
  expect(await git.mustRead(['cat-file'], { timeoutMs: 60_000 })).toEqual(Buffer.from([0xff, 0x0a]));
});
