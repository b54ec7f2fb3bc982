import { openCapped } from '../contenders/contender.ts';
import type { Task } from '../harness/task.ts';

/** A dispatcher that runs effects of no length until it is stopped. */
export const serveTask: Task<{ url: string; slots: number }, void> = {
  name: 'shares-serve',
  async run(contender, { url, slots }, _report, stop) {
    const session = openCapped(contender, url);
    const worker = await session.work({ slots, purpose: 'latency', run: () => undefined });
    if (!stop.aborted) await new Promise((resolve) => stop.addEventListener('abort', resolve));
    await worker.stop();
    worker.assertSettings();
    await session.close();
  },
};
