import { tryWithLockFile } from '../git/folder-lock.ts';
import { hasHiddenPacks, showHiddenPacks } from './hidden-packs.ts';
import { listPacks, type Pack } from './list-packs.ts';
import { maintenanceLock, markMaintained } from './maintenance-marks.ts';
import { planMaintenance, type MaintenancePlan } from './maintenance-plan.ts';
import { pruneRepo, type PruneContext, type PruneOutcome, type RepoOnDisk } from './prune-repo.ts';
import { lastPrune } from './prune-stamp.ts';
import { runPatientGit } from './run-patient-git.ts';
import { sweepRepo } from './sweep-debris.ts';

export interface MaintenanceContext extends PruneContext {
  /** Makes the refs on disk those of the database. */
  refresh: (repoId: string) => Promise<unknown>;
  /** How old something must be to have been left by a process that is gone. */
  debrisMs: number;
}

/** What was done to a repository, and what it came to. */
export interface MaintenanceReport {
  before: PackTotals;
  after: PackTotals;
  wasRepacked: boolean;
  /** Null: it was not due. */
  prune: PruneOutcome | null;
}

export interface PackTotals {
  packs: number;
  bytes: number;
}

/** A lock that is older than all of the work may take was left behind. */
const LOCK_MARGIN_MS = 60_000;
const STEPS_MAX = 3;

/**
 * Does what a repository on disk needs: brings back packs that an interrupted prune hid, removes debris, joins packs
 * that have become many, takes out what nobody needs, and writes git's index of commits anew. Null: it needed nothing,
 * and nothing was written, or another process is at it. The lock is a file since what it protects is the disk: pushers
 * that share one find it, and those that do not are not in each other's way.
 */
export async function maintainRepo(
  context: MaintenanceContext,
  repo: RepoOnDisk,
): Promise<MaintenanceReport | null> {
  const { folder } = repo;
  const { repack, prune } = await planFor(context, folder);
  if (!repack && !prune && !(await hasHiddenPacks(folder))) return null;
  const staleMs = context.timeoutMs * STEPS_MAX + LOCK_MARGIN_MS;
  const done = await tryWithLockFile(maintenanceLock(folder), staleMs, async (share) => {
    await showHiddenPacks(folder);
    await sweepRepo(folder, context.debrisMs);
    // The git of a pusher that was killed goes on, and would delete packs under another's hands.
    return await doDueWork({ ...context, onStarted: share }, repo);
  });
  return done?.result ?? null;
}

async function planFor(
  { keepDays }: MaintenanceContext,
  folder: string,
): Promise<MaintenancePlan & { packs: Pack[] }> {
  const packs = await listPacks(folder);
  const last = await lastPrune(folder);
  return { ...planMaintenance({ packs, last, keepDays, nowMs: Date.now() }), packs };
}

async function doDueWork(context: MaintenanceContext, repo: RepoOnDisk): Promise<MaintenanceReport | null> {
  const { folder } = repo;
  // Once more: another process may have been at it until now.
  const plan = await planFor(context, folder);
  if (!plan.repack && !plan.prune) return null;
  await context.refresh(repo.repoId);
  // Pruned first, so that what goes is not packed once more and counted as new.
  const prune = plan.prune ? await pruneRepo(context, repo) : null;
  if (plan.repack) {
    await runPatientGit({ ...context, folder, args: ['repack', '--geometric=2', '-d', '-n', '--quiet'] });
  }
  await runPatientGit({ ...context, folder, args: ['commit-graph', 'write', '--reachable', '--split'] });
  const after = total(await listPacks(folder));
  await markMaintained(folder);
  return { before: total(plan.packs), after, wasRepacked: plan.repack, prune };
}

function total(packs: readonly Pack[]): PackTotals {
  return { packs: packs.length, bytes: packs.reduce((sum, { bytes }) => sum + bytes, 0) };
}
