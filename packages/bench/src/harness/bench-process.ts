import { fork, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { ContenderName } from '../contenders/contender.ts';
import type { Task } from './task.ts';

const CHILD = fileURLToPath(new URL('./bench-child.ts', import.meta.url));
/** No single task takes this long; one that does hangs. A million effects on a slow machine take minutes. */
const TASK_MS_MAX = 900_000;

/** From the parent, first: what to do. */
export interface TaskOrder {
  task: string;
  contender: ContenderName;
  input: unknown;
}

/** From the parent, later: to come to an end. */
export const STOP = 'stop';

/** From the child: news, and in the end either of the others. */
export type TaskNews = { report: unknown } | { output: unknown } | { error: string };

export interface RunningTask<Output> {
  readonly output: Promise<Output>;
  /** Asks the task to come to its end, by the signal it was given. */
  stop(): void;
  /** Ends the process as a crash would: with SIGKILL. */
  kill(): void;
  /** Lets the process stand still, as on a machine that is suspended, until it is thawed. */
  freeze(): void;
  thaw(): void;
}

/** A process that stands still does not see that its parent is gone. */
const frozen = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of frozen) child.kill('SIGKILL');
});

/** Starts a task in a process of its own, which ends with the task, or with this process. */
export function startTask<Input, Output>(
  task: Task<Input, Output>,
  contender: ContenderName,
  input: Input,
  onReport: (value: unknown) => void = () => undefined,
): RunningTask<Output> {
  // What a contender prints is no result.
  const child = fork(CHILD, [], { stdio: ['ignore', 2, 2, 'ipc'], serialization: 'advanced' });
  const { promise, resolve, reject } = Promise.withResolvers<Output>();
  const what = `${task.name} of ${contender}`;
  const limit = setTimeout(() => {
    reject(new Error(`${what} took longer than ${TASK_MS_MAX / 60_000} minutes`));
    child.kill('SIGKILL');
  }, TASK_MS_MAX);
  child.on('message', (news: TaskNews) => {
    if ('report' in news) onReport(news.report);
    else if ('error' in news) reject(new Error(`${what}: ${news.error}`));
    else resolve(news.output as Output);
  });
  child.on('error', reject);
  child.on('exit', (code, signal) => {
    clearTimeout(limit);
    reject(new Error(`${what}: its process ended (${signal ?? code}) without a result`));
  });
  child.send({ task: task.name, contender, input } satisfies TaskOrder);
  return {
    output: promise,
    stop: () => void (child.connected && child.send(STOP)),
    kill: () => void child.kill('SIGKILL'),
    freeze() {
      frozen.add(child);
      child.kill('SIGSTOP');
    },
    thaw() {
      child.kill('SIGCONT');
      frozen.delete(child);
    },
  };
}
