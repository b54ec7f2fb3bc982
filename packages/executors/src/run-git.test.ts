import { expect, it, vi } from 'vitest';
import { runGit } from './run-git.ts';

it('returns output and takes input', async () => {
  expect((await runGit({ args: ['hash-object', '--stdin'], input: 'hello\n' })).trim()).toBe(
    'ce013625030ba8dba906f756967f9e9ca394464a',
  );
});

it("passes nothing of the caller's environment on", async () => {
  vi.stubEnv('GIT_DIR', '/nonexistent');
  vi.stubEnv('SLUICE_TOKEN', 'hunter2');
  const output = await runGit({ args: ['-c', 'alias.e=!env', 'e'] });
  expect(output).not.toContain('hunter2');
  expect(output).not.toContain('GIT_DIR');
  vi.unstubAllEnvs();
});

it('reports what git said', async () => {
  await expect(runGit({ args: ['cat-file', '-t', 'x'], gitDir: '/nonexistent' })).rejects.toMatchObject({
    name: 'GitError',
    exitCode: 128,
    isTimeout: false,
    stderr: expect.stringContaining('not a git repository'),
  });
});

it('kills a command and its children at its time limit, on abort, and when it writes too much', async () => {
  const sleeper = ['-c', 'alias.s=!sleep 300 & sleep 300', 's'];
  await expect(runGit({ args: sleeper, timeoutMs: 50 })).rejects.toMatchObject({ isTimeout: true });
  const abort = new AbortController();
  const running = runGit({ args: sleeper, signal: abort.signal });
  abort.abort(new Error('enough'));
  await expect(running).rejects.toThrow('enough');
  await expect(runGit({ args: ['-c', 'alias.y=!yes', 'y'], outputBytesMax: 1000 })).rejects.toThrow(
    'wrote too much',
  );
});
