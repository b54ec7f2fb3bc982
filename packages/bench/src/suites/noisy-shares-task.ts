import { openCapped } from '../contenders/contender.ts';
import type { Task } from '../harness/task.ts';
import { jainIndex } from '../measure/jain-index.ts';
import { repoNames } from './repo-names.ts';

export interface SharesInput {
  url: string;
  lightRepos: number;
  effectsOfEach: number;
  slots: number;
  noise: number;
}

/** Jain's index over the equal repos, all with work, when half of it is done, while one repo has far more. */
export const sharesTask: Task<SharesInput, number> = {
  name: 'noisy-shares',
  async run(contender, { url, lightRepos, effectsOfEach, slots, noise }) {
    const session = openCapped(contender, url);
    const repos = repoNames('light', lightRepos);
    await session.load(['noisy'], noise, 0);
    await session.load(repos, effectsOfEach, noise);
    const served = new Map(repos.map((repo) => [repo, 0]));
    const { promise: isHalfDone, resolve } = Promise.withResolvers<void>();
    let count = 0;
    const half = (lightRepos * effectsOfEach) / 2;
    const worker = await session.work({
      slots,
      purpose: 'latency',
      repoCap: 4,
      async run({ repo }) {
        const before = served.get(repo);
        if (before !== undefined && count < half) {
          served.set(repo, before + 1);
          count += 1;
          if (count === half) resolve();
        }
        await new Promise(setImmediate);
      },
    });
    await isHalfDone;
    await worker.stop();
    await session.close();
    return jainIndex([...served.values()]);
  },
};
