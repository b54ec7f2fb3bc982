import { spawn } from 'node:child_process';

export interface GitOutput {
  stdout: string;
  stderr: string;
}

const GIT_TIMEOUT_MS = 120_000;

/** Runs stock git in a folder, without anybody's configuration; throws with git's words unless it exits 0. */
export async function git(folder: string, args: readonly string[], input = ''): Promise<GitOutput> {
  return await new Promise((resolve, reject) => {
    const child = spawn('git', args, {
      cwd: folder,
      env: environment(folder),
      timeout: GIT_TIMEOUT_MS,
      killSignal: 'SIGKILL',
    });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    child.stdin.on('error', () => {});
    child.stdin.end(input);
    child.on('error', reject);
    child.on('close', (code) => {
      if (code === 0) resolve({ stdout: stdout.trimEnd(), stderr });
      else reject(new Error(`git ${args.join(' ')} exited ${code}:\n${stderr}${stdout}`));
    });
  });
}

function environment(folder: string): NodeJS.ProcessEnv {
  return {
    PATH: process.env['PATH'],
    HOME: folder,
    LC_ALL: 'C',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    // The checkout may belong to another user, as in a container with a mounted folder.
    GIT_CONFIG_COUNT: '1',
    GIT_CONFIG_KEY_0: 'safe.directory',
    GIT_CONFIG_VALUE_0: '*',
    GIT_TERMINAL_PROMPT: '0',
    GIT_AUTHOR_NAME: 'Sluice demo',
    GIT_AUTHOR_EMAIL: 'demo@sluice.invalid',
    GIT_COMMITTER_NAME: 'Sluice demo',
    GIT_COMMITTER_EMAIL: 'demo@sluice.invalid',
  };
}
