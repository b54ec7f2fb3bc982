import type { PushSource } from './push-source.ts';
import { runGit } from './run-git.ts';

/** What is pushed where: to every repository, commits `from` to `to` of the source, one push for each. */
export interface PushLoad {
  source: PushSource;
  /** URLs of the repositories. */
  remotes: readonly string[];
  from: number;
  to: number;
  clients: number;
  /** Refspecs that go with each push. */
  alongside?: readonly string[];
}

/**
 * Pushes by stock git from several clients at once, each with repositories of its own, and returns the milliseconds that
 * each push took. Throws if one was refused.
 */
export async function pushAll(load: PushLoad): Promise<number[]> {
  const { source, remotes, from, to, clients, alongside = [] } = load;
  const tookMs: number[] = [];
  const client = async (number: number): Promise<void> => {
    for (let commit = from; commit < to; commit += 1) {
      for (let remote = number; remote < remotes.length; remote += clients) {
        const startedAt = performance.now();
        const refspec = `${source.commits[commit]!}:refs/heads/main`;
        await runGit(source.folder, ['push', '--quiet', remotes[remote]!, refspec, ...alongside]);
        tookMs.push(performance.now() - startedAt);
      }
    }
  };
  await Promise.all(Array.from({ length: clients }, (_, number) => client(number)));
  return tookMs;
}
