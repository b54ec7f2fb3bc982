import { unavailable } from '../http-error.ts';
import { startGit, type StartGitOptions } from './start-git.ts';

export interface ReadGitOptions extends Pick<StartGitOptions, 'args' | 'env' | 'memoryBytesMax'> {
  /** Standard input. */
  input?: string;
  /** Longest time it may take. */
  timeoutMs: number;
  /** Most bytes of output. */
  bytesMax: number;
}

/** Runs git to its end and returns its output; anything but a whole answer within the limits is a 503. */
export async function readGit(options: ReadGitOptions): Promise<Buffer> {
  const { input = '', timeoutMs, bytesMax, ...start } = options;
  const git = await startGit(start);
  const timer = setTimeout(() => git.end('SIGKILL'), timeoutMs);
  try {
    git.stdin.end(input);
    const parts: Buffer[] = [];
    let bytes = 0;
    for await (const part of git.stdout as AsyncIterable<Buffer>) {
      bytes += part.length;
      if (bytes > bytesMax) throw unavailable('git wrote more than fits into memory');
      parts.push(part);
    }
    const code = await git.exited;
    if (code !== 0) throw unavailable('git could not read the repository', new Error(git.errors()));
    return Buffer.concat(parts, bytes);
  } finally {
    clearTimeout(timer);
    git.end('SIGKILL');
  }
}
