import { spawn } from 'node:child_process';
import { CommandError } from './command-error.ts';
import { withoutCredentials } from './without-credentials.ts';

export interface GitResult {
  readonly code: number;
  readonly stdout: Buffer;
  /** Without the user part of any URL. */
  readonly stderr: string;
  /** It was ended because it wrote more than {@link OUTPUT_BYTES_MAX}. */
  readonly isTooLong: boolean;
  /** It was ended because it took longer than it was given. */
  readonly isTooLate: boolean;
}

export interface Git {
  /** Runs git in the person's folder and waits for its end, whatever its exit code. */
  run(args: readonly string[], options?: GitOptions): Promise<GitResult>;
  /** The same, for commands that have to succeed; returns standard output without the last line end. */
  must(args: readonly string[], options?: GitOptions): Promise<string>;
  /** The same, with all of standard output as it is. */
  mustRead(args: readonly string[], options?: GitOptions): Promise<Buffer>;
}

export interface GitOptions {
  readonly input?: string | Uint8Array;
  readonly env?: Readonly<Record<string, string>>;
  /** When to end it; without it, it may take as long as the network does. */
  readonly timeoutMs?: number;
}

/**
 * What git gets of the environment: how to reach a remote as this person, and how they set git up. Nothing that would
 * point it at another repository, index or work tree, as a hook's environment does.
 */
const PASSED_ON = new Set(
  `PATH HOME USER LOGNAME SHELL TMPDIR TERM DISPLAY WAYLAND_DISPLAY XDG_CONFIG_HOME XDG_RUNTIME_DIR
   DBUS_SESSION_BUS_ADDRESS SSH_AUTH_SOCK SSH_AGENT_PID SSH_ASKPASS GNUPGHOME GPG_TTY GIT_SSH GIT_SSH_COMMAND
   GIT_SSH_VARIANT GIT_ASKPASS GIT_TERMINAL_PROMPT GIT_EXEC_PATH GIT_SSL_CAINFO GIT_SSL_CAPATH GIT_SSL_NO_VERIFY
   SSL_CERT_FILE SSL_CERT_DIR HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy
   GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL EMAIL GIT_CEILING_DIRECTORIES SLUICE_PUSHER`.split(
    /\s+/,
  ),
);

/** Most that git may write, so that nothing fills the memory. */
export const OUTPUT_BYTES_MAX = 32 * 1024 * 1024;
/** How long after git's end its pipes may stay open. */
const DRAIN_MS_MAX = 500;

/** git, as the person would run it in `cwd`. */
export function createGit(cwd: string, env: Readonly<Record<string, string | undefined>>): Git {
  const own: Record<string, string> = { LC_ALL: 'C' };
  for (const [name, value] of Object.entries(env)) {
    if (value !== undefined && (PASSED_ON.has(name) || name.startsWith('GIT_CONFIG_'))) own[name] = value;
  }
  const run: Git['run'] = (args, options = {}) => runGit(cwd, { ...own, ...options.env }, args, options);
  const mustRead: Git['mustRead'] = async (args, options = {}) => {
    const { code, stdout, stderr, ...ended } = await run(args, options);
    if (code === 0) return stdout;
    if (/not a git repository/.test(stderr)) {
      throw new CommandError(
        'this folder is not in a git repository',
        'Go to a clone of the repository and run it there.',
      );
    }
    const why = ended.isTooLong
      ? `it wrote more than ${OUTPUT_BYTES_MAX / 1024 ** 2} MiB`
      : ended.isTooLate
        ? `it took more than ${options.timeoutMs! / 1000} s`
        : reason(stderr);
    throw new CommandError(
      `git ${args[0]} failed: ${why}`,
      'Check that the same works with git itself, then try again.',
    );
  };
  return {
    run,
    must: async (args, options) => (await mustRead(args, options)).toString('utf8').replace(/\n$/, ''),
    mustRead,
  };
}

/** Why git failed, without its prefix. The first reason is the cause; what follows is what came of it. */
export function reason(stderr: string): string {
  const lines = stderr.split('\n').filter((line) => line.trim() !== '' && !line.startsWith('remote: '));
  const told = lines.find((line) => /^(?:fatal|error): /.test(line));
  return (told ?? lines.at(-1) ?? 'it gave no reason').replace(/^(?:fatal|error): /, '');
}

async function runGit(
  cwd: string,
  env: Record<string, string>,
  args: readonly string[],
  { input = '', timeoutMs }: GitOptions,
): Promise<GitResult> {
  const child = spawn('git', args, { cwd, env, stdio: ['pipe', 'pipe', 'pipe'] });
  const stdout: Buffer[] = [];
  const stderr: Buffer[] = [];
  let bytes = 0;
  let isTooLate = false;
  const keep = (kept: Buffer[]) => (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes <= OUTPUT_BYTES_MAX) kept.push(chunk);
    else child.kill();
  };
  child.stdout.on('data', keep(stdout));
  child.stderr.on('data', keep(stderr));
  // git may end without reading all of it; its exit code says what happened.
  child.stdin.on('error', () => {});
  child.stdin.end(input);
  const ended = Promise.withResolvers<number>();
  child.on('error', ended.reject);
  child.on('close', (code) => ended.resolve(code ?? 1));
  const expire = (): void => {
    isTooLate = child.kill('SIGKILL');
  };
  const timer = timeoutMs === undefined ? undefined : setTimeout(expire, timeoutMs);
  // What ssh, an askpass or a credential helper left in the background may hold the pipes open for ever.
  let draining: NodeJS.Timeout | undefined;
  const close = (): void => [child.stdout, child.stderr].forEach((pipe) => pipe.destroy());
  child.on('exit', () => {
    // Only after one more look at the pipes: what git wrote is in them, however long this process stood still.
    draining = setTimeout(() => setImmediate(close), DRAIN_MS_MAX);
  });
  try {
    const code = await ended.promise;
    return {
      code,
      stdout: Buffer.concat(stdout),
      isTooLong: bytes > OUTPUT_BYTES_MAX,
      isTooLate,
      stderr: withoutCredentials(Buffer.concat(stderr).toString('utf8')),
    };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    throw new CommandError('git was not found', 'Install git 2.34 or newer, or put it on the PATH.');
  } finally {
    clearTimeout(timer);
    clearTimeout(draining);
  }
}
