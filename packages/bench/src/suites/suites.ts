import type { Suite } from '../harness/suite.ts';
import type { Task } from '../harness/task.ts';
import { claimBacklog } from './claim-backlog.ts';
import { claimSaturated } from './claim-saturated.ts';
import { drain } from './drain.ts';
import { exact } from './exact.ts';
import { enqueueBulk } from './enqueue-bulk.ts';
import { enqueueOne } from './enqueue-one.ts';
import { installTask } from './install-task.ts';
import { latency } from './latency.ts';
import { million, millionWaiting } from './million.ts';
import { noisy } from './noisy.ts';
import { pinnedXmin } from './pinned-xmin.ts';
import { push } from './push.ts';
import { recover } from './recover.ts';
import { shares } from './shares.ts';

export const SUITES: readonly Suite[] = [
  drain,
  enqueueOne,
  enqueueBulk,
  latency,
  claimBacklog,
  claimSaturated,
  pinnedXmin,
  noisy,
  recover,
  exact,
  shares,
  million,
  millionWaiting,
  push,
];

/** Every task by its name, for the process that runs it; what it gets is what the caller of the same name sent. */
export const TASKS: ReadonlyMap<string, Task<unknown, unknown>> = new Map(
  [installTask, ...SUITES.flatMap((suite) => suite.tasks)].map((task) => [
    task.name,
    task as Task<unknown, unknown>,
  ]),
);
