import type { Job } from '../contenders/contender.ts';
import type { Task } from '../harness/task.ts';
import { repoNames } from './repo-names.ts';

const BATCH = 2_000;

/** Enqueues effects 0 to `effects` - 1 over the repos in turn, by the contender's own bulk call. */
export const loadTask: Task<{ url: string; effects: number; repos: number }, void> = {
  name: 'load',
  async run(contender, { url, effects, repos }) {
    const session = await contender.open(url);
    const names = repoNames('repo', repos);
    for (let from = 0; from < effects; from += BATCH) {
      const length = Math.min(BATCH, effects - from);
      await session.enqueueMany(Array.from({ length }, (_, index): Job => jobOf(names, from + index)));
    }
    await session.close();
  },
};

/** The effect of this number: repos take turns. */
export function jobOf(repos: readonly string[], number: number): Job {
  return { repo: repos[number % repos.length]!, number };
}
