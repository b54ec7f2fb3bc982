import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

export interface GitResult {
  code: number;
  stdout: string;
  stderr: string;
}

export interface GitOptions {
  /** Standard input; default: empty. */
  input?: string | Uint8Array;
  env?: Record<string, string>;
}

export interface Git {
  readonly folder: string;
  /** Runs git and returns its standard output without the last newline; throws with git's words unless it exits 0. */
  (args: readonly string[], options?: GitOptions): Promise<string>;
  /** Runs git and returns whatever it said. */
  attempt(args: readonly string[], options?: GitOptions): Promise<GitResult>;
}

const GIT_TIMEOUT_MS = 60_000;

/**
 * Stock git in a folder, with an environment of its own: no configuration of this machine, no prompt, fixed identity
 * and time, so that the same steps give the same object ids.
 */
export function gitIn(folder: string, env: Record<string, string> = {}): Git {
  const attempt = (args: readonly string[], options: GitOptions = {}): Promise<GitResult> =>
    runGit(folder, args, { ...options, env: { ...env, ...options.env } });
  const run = async (args: readonly string[], options?: GitOptions): Promise<string> => {
    const result = await attempt(args, options);
    if (result.code === 0) return result.stdout.replace(/\n$/, '');
    throw new Error(`git ${args.join(' ')} exited ${result.code}:\n${result.stderr}${result.stdout}`);
  };
  return Object.assign(run, { folder, attempt });
}

/** Makes an empty repository with a work tree. */
export async function makeRepo(
  folder: string,
  options: { objectFormat?: 'sha1' | 'sha256' } = {},
): Promise<Git> {
  mkdirSync(folder, { recursive: true });
  const git = gitIn(folder);
  await git([
    'init',
    '--quiet',
    '--initial-branch=main',
    `--object-format=${options.objectFormat ?? 'sha1'}`,
  ]);
  return git;
}

/** Writes files, commits them on the current branch and returns the commit's oid. */
export async function commitFiles(
  git: Git,
  files: Record<string, string>,
  message = 'change',
): Promise<string> {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(git.folder, path)), { recursive: true });
    writeFileSync(join(git.folder, path), content);
  }
  await git(['add', '--all']);
  await git(['commit', '--quiet', '--allow-empty', `--message=${message}`]);
  return await git(['rev-parse', 'HEAD']);
}

/** Stores a commit with one file at a ref of the local repository. */
export async function commitFileAt(git: Git, ref: string, file: string, text: string): Promise<string> {
  const blob = await git(['hash-object', '-w', '--stdin'], { input: text });
  const tree = await git(['mktree'], { input: `100644 blob ${blob}\t${file}\n` });
  const commit = await git(['commit-tree', tree, '-m', `Set ${ref}`]);
  await git(['update-ref', ref, commit]);
  return commit;
}

/** Stores an effect definition at `refs/meta/effects/<name>` of the local repository and returns its commit. */
export async function defineEffect(git: Git, name: string, effectYaml: string): Promise<string> {
  const ref = `refs/meta/effects/${name}`;
  const blob = await git(['hash-object', '-w', '--stdin'], { input: effectYaml });
  const tree = await git(['mktree'], { input: `100644 blob ${blob}\teffect.yaml\n` });
  const former = await git.attempt(['rev-parse', '--verify', '--quiet', ref]);
  const parents = former.code === 0 ? ['-p', former.stdout.trim()] : [];
  const commit = await git(['commit-tree', tree, ...parents, '-m', `Define ${name}`]);
  await git(['update-ref', ref, commit]);
  return commit;
}

async function runGit(folder: string, args: readonly string[], options: GitOptions): Promise<GitResult> {
  return await new Promise((resolve, reject) => {
    const child = spawn('git', args, {
      cwd: folder,
      env: { ...environment(folder), ...options.env },
      stdio: 'pipe',
      timeout: GIT_TIMEOUT_MS,
      killSignal: 'SIGKILL',
    });
    const output: Record<'stdout' | 'stderr', Buffer[]> = { stdout: [], stderr: [] };
    child.stdout.on('data', (chunk: Buffer) => output.stdout.push(chunk));
    child.stderr.on('data', (chunk: Buffer) => output.stderr.push(chunk));
    // git may leave without reading its input.
    child.stdin.on('error', () => {});
    child.stdin.end(options.input ?? '');
    child.on('error', reject);
    child.on('close', (code) =>
      resolve({
        code: code ?? -1,
        stdout: Buffer.concat(output.stdout).toString(),
        stderr: Buffer.concat(output.stderr).toString(),
      }),
    );
  });
}

function environment(folder: string): Record<string, string> {
  return {
    PATH: process.env['PATH'] ?? '/usr/bin:/bin',
    HOME: folder,
    LC_ALL: 'C',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_TERMINAL_PROMPT: '0',
    GIT_AUTHOR_NAME: 'Ada',
    GIT_AUTHOR_EMAIL: 'ada@example.com',
    GIT_AUTHOR_DATE: '2024-01-02T03:04:05Z',
    GIT_COMMITTER_NAME: 'Ada',
    GIT_COMMITTER_EMAIL: 'ada@example.com',
    GIT_COMMITTER_DATE: '2024-01-02T03:04:05Z',
  };
}
