import { spawn } from 'node:child_process';

const GIT_MS_MAX = 60_000;

/** Runs stock git in a folder and returns its standard output; throws with git's words unless it exits 0. */
export async function runGit(
  folder: string,
  args: readonly string[],
  input: string | Uint8Array = '',
): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const child = spawn('git', args, {
    cwd: folder,
    env: gitEnvironment(folder),
    timeout: GIT_MS_MAX,
    killSignal: 'SIGKILL',
  });
  const output: { stdout: Buffer[]; stderr: Buffer[] } = { stdout: [], stderr: [] };
  child.stdout.on('data', (chunk: Buffer) => output.stdout.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => output.stderr.push(chunk));
  child.stdin.on('error', () => {});
  child.stdin.end(input);
  child.on('error', reject);
  child.on('close', (code) => {
    if (code === 0) resolve(Buffer.concat(output.stdout).toString().trimEnd());
    else
      reject(new Error(`git ${args.join(' ')} exited ${code}: ${Buffer.concat(output.stderr).toString()}`));
  });
  return await promise;
}

/** No configuration of this machine, and no prompt. */
export function gitEnvironment(home: string): NodeJS.ProcessEnv {
  return {
    PATH: process.env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin',
    HOME: home,
    LC_ALL: 'C',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_TERMINAL_PROMPT: '0',
  };
}
