import { SluiceError } from '@sluice/db';
import { gitEnvironment } from './git-environment.ts';
import { readGit } from './read-git.ts';

/** Has proc-receive as it is used here, and advertises by `--http-backend-info-refs`. */
const OLDEST = [2, 34] as const;
const VERSION_MS_MAX = 30_000;

/** Fails unless there is a git that is new enough. */
export async function requireGit(home: string): Promise<void> {
  const version = await readVersion(home);
  const [major = 0, minor = 0] = /(\d+)\.(\d+)/.exec(version)?.slice(1).map(Number) ?? [];
  if (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) return;
  throw new SluiceError(
    'git_unusable',
    `expected git ${OLDEST.join('.')} or newer on the PATH, got ${version === '' ? 'none' : version}.`,
  );
}

async function readVersion(home: string): Promise<string> {
  try {
    const env = gitEnvironment({ home, config: [] });
    const output = await readGit({ args: ['version'], env, timeoutMs: VERSION_MS_MAX, bytesMax: 1000 });
    return output.toString('utf8').trim();
  } catch {
    return '';
  }
}
