import { randomUUID } from 'node:crypto';
import { readdirSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { repoFolder } from '@sluice/ref-store';
import { gitIn } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, vi } from 'vitest';
import { RefCache } from '../src/git/ref-cache.ts';
import { KeyedTurns } from '../src/keyed-turns.ts';
import { maintainRepo, type MaintenanceContext, type MaintenanceReport } from '../src/store/maintain-repo.ts';
import { BOUND, type CrashScene } from './crash-scene.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Maintains a repository of the scene as another pusher on the same disk would. */
export async function maintain(
  scene: CrashScene,
  repoId: string,
  changes: Partial<MaintenanceContext> = {},
): Promise<MaintenanceReport | null> {
  const { db } = scene.database;
  const refs = new RefCache({ db, folderOf: (id, format) => repoFolder(scene.dataDir, id, format) });
  const context: MaintenanceContext = {
    db,
    home: scene.folder,
    commitTurns: new KeyedTurns(),
    keepDays: null,
    timeoutMs: 60_000,
    signal: new AbortController().signal,
    debrisMs: 2 * HOUR_MS,
    refresh: (id) => refs.refresh(id),
    ...changes,
  };
  return await maintainRepo(context, { repoId, folder: scene.repoFolderOf(repoId) });
}

export function packsOf(folder: string): string[] {
  return readdirSync(join(folder, 'objects/pack'))
    .filter((name) => name.endsWith('.pack'))
    .toSorted();
}

/** Makes all packs of a repository look as if they had been written so many days ago. */
export function agePacks(folder: string, days: number): void {
  const then = new Date(Date.now() - days * DAY_MS);
  for (const name of packsOf(folder)) utimesSync(join(folder, 'objects/pack', name), then, then);
}

/** Adds packs of one blob each that nothing names, and returns the blobs. */
export async function addGarbage(folder: string, count: number): Promise<string[]> {
  const git = gitIn(folder);
  const blobs: string[] = [];
  for (let n = 0; n < count; n += 1) {
    const blob = await git(['hash-object', '-w', '--stdin'], { input: `garbage ${randomUUID()}` });
    await git(['pack-objects', '--quiet', 'objects/pack/pack'], { input: `${blob}\n` });
    blobs.push(blob);
  }
  await git(['prune-packed', '--quiet']);
  return blobs;
}

export async function has(folder: string, oid: string): Promise<boolean> {
  return (await gitIn(folder).attempt(['cat-file', '-e', oid])).code === 0;
}

/** Fails unless everything that the repository's refs reach is there and whole. */
export async function expectWhole(folder: string): Promise<void> {
  const { code, stdout, stderr } = await gitIn(folder).attempt(['fsck', '--full', '--no-dangling']);
  expect([code, stdout, stderr]).toEqual([0, '', '']);
}

/** Waits until so many sessions wait for a lock in this database. */
export async function untilWaiting(scene: CrashScene, sessions: number): Promise<void> {
  await vi.waitFor(async () => {
    const { rows } = await sql<{ n: number }>`select count(*)::int as n from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`.execute(scene.database.db);
    expect(rows[0]!.n).toBe(sessions);
  }, BOUND);
}
