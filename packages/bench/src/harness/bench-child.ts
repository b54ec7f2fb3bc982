import { contenderNamed } from '../contenders/contenders.ts';
import { TASKS } from '../suites/suites.ts';
import { STOP, type TaskNews, type TaskOrder } from './bench-process.ts';

/** The other end of a task's process: does what the first message says, answers, and ends. */
const stopping = new AbortController();
process.on('message', (message: TaskOrder | typeof STOP) => {
  if (message === STOP) stopping.abort();
  else void obey(message);
});
process.on('disconnect', () => process.exit(1));
process.on('uncaughtException', (error) => tell({ error: describe(error) }, 1));

async function obey({ task, contender, input }: TaskOrder): Promise<void> {
  try {
    const run = TASKS.get(task)?.run;
    if (run === undefined) throw new Error(`there is no task ${task}`);
    const output = await run(
      await contenderNamed(contender),
      input,
      (report) => tell({ report }),
      stopping.signal,
    );
    tell({ output }, 0);
  } catch (error) {
    tell({ error: describe(error) }, 1);
  }
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause === undefined ? '' : `\nbecause of ${describe(error.cause)}`;
  return `${error.stack ?? error.message}${cause}`;
}

function tell(news: TaskNews, exitCode?: number): void {
  process.send?.(news, undefined, undefined, () => {
    if (exitCode !== undefined) process.exit(exitCode);
  });
}
