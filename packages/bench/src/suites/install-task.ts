import type { Task } from '../harness/task.ts';

/** Makes the contender's tables. */
export const installTask: Task<{ url: string }, void> = {
  name: 'install',
  run: (contender, { url }) => contender.install(url),
};
