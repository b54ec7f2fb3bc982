import { expect, test } from 'vitest';
import { gitEnvironment } from './git-environment.ts';
import { startGit } from './start-git.ts';

test('a git that cannot be started is a 503, and ends nothing', async () => {
  const env = { ...gitEnvironment({ home: '/nonexistent', config: [] }), PATH: '/nonexistent' };
  await expect(startGit({ args: ['version'], env })).rejects.toMatchObject({ status: 503 });
});

test('git sees its configuration and nothing of ours', async () => {
  process.env['GIT_DIR'] = '/somewhere';
  try {
    const env = gitEnvironment({ home: '/nonexistent', config: [['test.key', 'a = "b"\n']] });
    expect(Object.keys(env).filter((name) => name.startsWith('GIT_DIR'))).toEqual([]);
    const git = await startGit({ args: ['config', '--get', 'test.key'], env });
    git.stdin.end();
    let text = '';
    for await (const chunk of git.stdout) text += String(chunk);
    expect(text).toBe('a = "b"\n\n');
    expect(await git.exited).toBe(0);
  } finally {
    delete process.env['GIT_DIR'];
  }
});
