import { expect, test } from 'vitest';
import { gitEnvironment } from './git-environment.ts';
import { readGit } from './read-git.ts';

const env = gitEnvironment({ home: '/nonexistent', config: [['alias.run', '!sh -c']] });
const bounds = { env, timeoutMs: 20_000, bytesMax: 1000 };

test('input goes in, output comes out', async () => {
  expect((await readGit({ ...bounds, args: ['run', 'cat'], input: 'hello' })).toString()).toBe('hello');
});

test('a git that fails, never ends or never stops writing is a 503, and is ended', async () => {
  const failing = { ...bounds, args: ['run', 'echo why >&2; exit 3'] };
  await expect(readGit(failing)).rejects.toMatchObject({ status: 503, cause: { message: 'why\n' } });
  const silent = { ...bounds, args: ['run', 'sleep 300'], timeoutMs: 20 };
  await expect(readGit(silent)).rejects.toMatchObject({ status: 503 });
  await expect(readGit({ ...bounds, args: ['run', 'yes'] })).rejects.toMatchObject({ status: 503 });
});
