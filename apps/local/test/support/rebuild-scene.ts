import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { table } from '@sluice/db';
import { makeRepo, spawnApp, type Git, type TestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import type { Pusher, System } from './use-system.ts';

const CLI = fileURLToPath(new URL('../../../cli/src/main.ts', import.meta.url));

/** A repository whose queue is lost and rebuilt. */
export interface RebuildScene {
  pusher: Pusher;
  work: Git;
  /** Pushes and returns what git printed. */
  push: (...refs: string[]) => Promise<string>;
  /** What the queue holds of the repository, without what a row gets from its insertion. */
  queue: () => Promise<Record<string, unknown>[]>;
  loseQueue: () => Promise<void>;
  /** Runs `sluice rebuild` as an operator on the pusher's machine would. */
  rebuild: (...more: string[]) => Promise<{ code: number | null; stdout: string; output: string }>;
}

/** Starts a pusher and makes an empty repository to push from. */
export async function makeRebuildScene(
  database: TestDatabase,
  system: System,
  repoId: string,
): Promise<RebuildScene> {
  const pusher = await system.startPusher();
  const work = await makeRepo(join(system.folder, 'work'));
  return {
    pusher,
    work,
    push: async (...refs) => (await work.attempt(['push', `${pusher.url}/${repoId}.git`, ...refs])).stderr,
    queue: async () =>
      await database.db
        .selectFrom('effect_queue')
        .select(['name', 'payload', 'priority', 'max_attempts', 'dedup_key', 'concurrency_group', 'push_id'])
        .where('repo_id', '=', repoId)
        .orderBy('effect_id')
        .execute(),
    loseQueue: async () => {
      const names = ['effect_queue', 'effect_claim', 'effect_history', 'effect_dedup'] as const;
      await sql`truncate ${sql.join(names.map((name) => table(name)))}`.execute(database.db);
    },
    rebuild: async (...more) => {
      await using app = spawnApp({
        file: CLI,
        args: ['rebuild', '--repo', repoId, ...more],
        env: { DATABASE_URL: database.url, SLUICE_DATA_DIR: join(system.folder, 'data') },
      });
      const { code } = await app.exited(120_000);
      return { code, stdout: app.stdout(), output: app.output() };
    },
  };
}
