import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { repoFolder } from '@sluice/ref-store';
import { commitFiles, defineEffect, makeRepo, spawnApp, type Git, type SpawnedApp } from '@sluice/testkit';
import { expect, vi } from 'vitest';
import { usePusher, type PusherFixture } from './use-pusher.ts';

/** A pusher in a process of its own, which can be killed. */
export interface PusherProcess extends AsyncDisposable {
  url: string;
  app: SpawnedApp;
}

/** A person's clone with a commit on main and an effect that it triggers, and the name of a repository to push it to. */
export interface Work {
  work: Git;
  commit: string;
  repoId: string;
}

export interface RepoRows {
  refs: number;
  pushes: number;
  effects: number;
}

const MAIN = join(import.meta.dirname, '../src/main.ts');
export const BOUND = { timeout: 20_000, interval: 20 };
export const REFSPECS = ['main', 'refs/meta/effects/ci'];
export const NOTHING: RepoRows = { refs: 0, pushes: 0, effects: 0 };
/** What a push of {@link REFSPECS} leaves. */
export const WHOLE: RepoRows = { refs: 2, pushes: 1, effects: 1 };

/** What crash tests have in common: pushes of one kind, and looks at what they left in the database and on disk. */
export interface CrashScene extends Omit<PusherFixture, 'folder'> {
  /** A temporary folder of the running test. */
  readonly folder: string;
  /** The pushers' data folder in it. */
  readonly dataDir: string;
  startProcess: (env?: Record<string, string>) => Promise<PusherProcess>;
  makeWork: () => Promise<Work>;
  rowsOf: (repoId: string) => Promise<RepoRows>;
  repoFolderOf: (repoId: string) => string;
  /** What processes leave behind that had no time to clean up. */
  debris: () => string[];
  /** A push answers first and refreshes the refs on disk then. */
  untilCached: (repoId: string, version: number) => Promise<void>;
}

export function useCrashScene(): CrashScene {
  const pusher = usePusher();
  let count = 0;
  const dataDir = (): string => join(pusher.folder, 'data');
  const folderOf = (repoId: string): string => repoFolder(dataDir(), repoId, 'sha1');
  return {
    database: pusher.database,
    events: pusher.events,
    start: (env) => pusher.start(env),
    get folder() {
      return pusher.folder;
    },
    get dataDir() {
      return dataDir();
    },
    async startProcess(env = {}) {
      const app = spawnApp({
        file: MAIN,
        env: {
          DATABASE_URL: pusher.database.url,
          SLUICE_DATA_DIR: dataDir(),
          SLUICE_LISTEN: '127.0.0.1:0',
          SLUICE_LOG_FORMAT: 'json',
          ...env,
        },
      });
      const [, url] = await app.waitForOutput(/"event":"pusher_started","url":"([^"]+)"/);
      return { url: url!, app, [Symbol.asyncDispose]: () => app[Symbol.asyncDispose]() };
    },
    async makeWork() {
      count += 1;
      const work = await makeRepo(join(pusher.folder, 'work'));
      const commit = await commitFiles(work, { 'a.txt': `hello ${count}` });
      await defineEffect(work, 'ci', 'on: [refs/heads/*]\nrun: make\n');
      return { work, commit, repoId: `crash/r${count}` };
    },
    async rowsOf(repoId) {
      const { db } = pusher.database;
      const of = async (table: 'ref' | 'op_record' | 'effect_queue'): Promise<number> =>
        (await db.selectFrom(table).select('repo_id').where('repo_id', '=', repoId).execute()).length;
      return { refs: await of('ref'), pushes: await of('op_record'), effects: await of('effect_queue') };
    },
    repoFolderOf: folderOf,
    debris() {
      const names = readdirSync(join(dataDir(), 'repos'), { recursive: true, encoding: 'utf8' });
      return names.filter((name) => /incoming|\.lock$|-new$/.test(name));
    },
    async untilCached(repoId, version) {
      await vi.waitFor(() => {
        expect(readFileSync(join(folderOf(repoId), 'packed-refs'), 'utf8')).toContain(`sluice=${version}:`);
        expect(readdirSync(folderOf(repoId))).not.toContain('packed-refs.lock');
      }, BOUND);
    },
  };
}

/** As by the kernel, without a chance to clean up. */
export async function kill({ app }: PusherProcess): Promise<void> {
  app.signal('SIGKILL');
  await app.exited();
}
