import { setTimeout as sleep } from 'node:timers/promises';
import { encodeJob } from '../contenders/contender.ts';
import type { Task } from '../harness/task.ts';
import { jobOf } from './load-task.ts';
import { repoNames } from './repo-names.ts';

const REPOS = 1_000;
const BATCH = 2_000;
const LOOK_EVERY_MS = 100;

export interface FeedInput {
  url: string;
  effects: number;
  /** Waits while there would be more unfinished effects than these. */
  unfinishedMax: number;
}

/** Enqueues effects 0 to `effects` - 1, each under a dedup key as a push gives one, so that every hot table is used. */
export const feedTask: Task<FeedInput, void> = {
  name: 'million-feed',
  async run(_contender, { url, effects, unfinishedMax }) {
    // Here and not above: the processes of other contenders load no part of Sluice.
    const { createDatabase, table } = await import('@sluice/db');
    const { enqueueEffects } = await import('@sluice/queue-core/repo');
    const { sql } = await import('kysely');
    const db = createDatabase({ connectionString: url, applicationName: 'bench-feed' });
    const repos = repoNames('repo', REPOS);
    const isFull = async (): Promise<boolean> => {
      const { rows } = await sql<{ unfinished: number }>`
        select count(*)::int as unfinished from ${table('effect_queue')}`.execute(db);
      return rows[0]!.unfinished + BATCH > unfinishedMax;
    };
    for (let from = 0; from < effects; from += BATCH) {
      while (unfinishedMax < effects && (await isFull())) await sleep(LOOK_EVERY_MS);
      const batch = Array.from({ length: Math.min(BATCH, effects - from) }, (_, index) => {
        const job = jobOf(repos, from + index);
        return {
          repoId: job.repo,
          payload: JSON.stringify(encodeJob(job)),
          dedupKey: `effect ${job.number}`,
        };
      });
      await enqueueEffects(db, batch);
    }
    await db.destroy();
  },
};
