import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { commitFileAt, commitFiles, defineEffect, gitIn, makeRepo } from '@sluice/testkit';
import { afterEach, expect, test, vi } from 'vitest';
import { usePusher } from './use-pusher.ts';

const pusher = usePusher();

afterEach(() => vi.unstubAllEnvs());

/** Puts a git on the PATH that notes its limit of memory, in KiB, and its arguments. */
function noteGit(): () => string[] {
  const real = execFileSync('sh', ['-c', 'command -v git'], { encoding: 'utf8' }).trim();
  const [bin, log] = [join(pusher.folder, 'bin'), join(pusher.folder, 'git-processes')];
  mkdirSync(bin);
  const script = `#!/bin/sh\nprintf '%s %s\\n' "$(ulimit -d)" "$*" >> '${log}'\nexec '${real}' "$@"\n`;
  writeFileSync(join(bin, 'git'), script, { mode: 0o755 });
  vi.stubEnv('PATH', `${bin}:${process.env['PATH']}`);
  return () => readFileSync(log, 'utf8').trimEnd().split('\n');
}

test('every git process that looks at what somebody pushes or fetches has the memory limit', async () => {
  const started = noteGit();
  const { url } = await pusher.start({ SLUICE_GIT_MEMORY_BYTES: String(256 * 1024 ** 2) });
  const work = await makeRepo(join(pusher.folder, 'work'));
  await commitFiles(work, { 'a.txt': 'one' });
  const rules = 'rules: { refs/heads/*: { force: false } }\n';
  await commitFileAt(work, 'refs/meta/config', 'policy.yaml', rules);
  await defineEffect(work, 'ci', 'on: [refs/heads/*]\nrun: make\n');
  await work(['push', '--quiet', `${url}/small.git`, 'main', 'refs/meta/*']);
  await commitFiles(work, { 'a.txt': 'two' });
  await work(['push', '--quiet', `${url}/small.git`, 'main']);
  await gitIn(pusher.folder)(['clone', '--quiet', `${url}/small.git`, 'clone']);

  const ofServer = started().filter((line) => line.includes(join(pusher.folder, 'data', 'repos')));
  const kinds = ['receive-pack', 'upload-pack', 'cat-file', 'merge-base'];
  for (const kind of kinds) expect(ofServer).toContainEqual(expect.stringContaining(` ${kind} `));
  expect(
    ofServer.filter(
      (line) => kinds.some((kind) => line.includes(` ${kind} `)) && !line.startsWith('262144 '),
    ),
  ).toEqual([]);
});
