import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { inBoundedTransaction, type DB } from '@sluice/db';
import { CONFIG_REF, MEMBER_PREFIX } from '@sluice/effect-spec';
import { lockRepo, readKeptOids, readRepo } from '@sluice/ref-store';
import type { Kysely } from 'kysely';
import { lookUpObjects } from '../git/look-up-objects.ts';
import { syncFolder } from '../git/repo-folder.ts';
import type { KeyedTurns } from '../keyed-turns.ts';
import { deleteHiddenPacks, hidePacks, showHiddenPacks } from './hidden-packs.ts';
import { listPacks, packFolder, type Pack } from './list-packs.ts';
import { hasLostPushes } from './lost-pushes.ts';
import { isOld } from './maintenance-plan.ts';
import { changePruneStamp, lastPrune } from './prune-stamp.ts';
import { runPatientGit } from './run-patient-git.ts';

export interface PruneContext {
  db: Kysely<DB>;
  home: string;
  /** The turns in which pushes commit. */
  commitTurns: KeyedTurns;
  /** How long what no ref names any more is kept; null: for ever. */
  keepDays: number | null;
  timeoutMs: number;
  signal: AbortSignal;
  /** Hears of each git process. */
  onStarted?: (pid: number) => void;
}

export interface RepoOnDisk {
  repoId: string;
  folder: string;
}

/** How a prune ended: what it took out, or why it took out nothing. */
export type PruneOutcome = { packs: Pack[] } | { putOff: string };

/** Everything that has to be kept is gathered in one walk; with more starting points than this it would be too long. */
const OIDS_MAX = 1_000_000;

/** Whoever verifies the log has to know who the members were, and what the policy said, at each of its pushes. */
const GOVERNING = [CONFIG_REF, MEMBER_PREFIX];

/**
 * Takes out what no accepted push named, and what refs named longer ago than it is kept. Packs that were written lately
 * stay whole: pushes that are under way, and those that failed within days, may be in them. So do packs that an earlier
 * prune wrote. What is needed of the others is first gathered in a new one, and they go only if no ref moved since.
 *
 * A push may find an object that is about to go, be told by git that nothing is missing, and commit after it is gone.
 * So the old packs are hidden first, while the repository is locked, and the stamp changes: whoever began before sees
 * another stamp in its own transaction and asks git again; whoever begins later does not find the object. Only when the
 * lock is known to have been held all along are the packs deleted. A crash at any point leaves everything, or what
 * is hidden, which the next maintenance shows again.
 */
export async function pruneRepo(context: PruneContext, repo: RepoOnDisk): Promise<PruneOutcome> {
  const { db, keepDays, commitTurns } = context;
  const { repoId, folder } = repo;
  if (await hasLostPushes(folder)) return { putOff: 'pushes were lost, and their objects may be needed' };
  const kept = await readKeptOids(db, { repoId, keepDays, lasting: GOVERNING, oidsMax: OIDS_MAX });
  if (kept === undefined) return { putOff: 'the repository is gone' };
  if (kept === null) return { putOff: `refs name and named more than ${OIDS_MAX} objects` };
  const tips = [...kept.named, ...kept.former];
  const found = await lookUpObjects(tips, { folder, home: context.home });
  if (kept.named.some((_, index) => found[index] === null))
    return { putOff: 'an object that a ref names is missing' };
  // What was needed once is needed for ever, unless former values are forgotten.
  const clean = keepDays === null ? ((await lastPrune(folder))?.clean ?? new Set()) : new Set<string>();
  const nowMs = Date.now();
  const packs = await listPacks(folder);
  const isSuspect = (one: Pack): boolean => isOld(one, nowMs) && !clean.has(one.name);
  const pack = await gather(
    context,
    folder,
    tips.filter((_, index) => found[index] !== null),
    packs.filter((one) => !isSuspect(one)),
  );
  const doomed = packs.filter((one) => isSuspect(one) && one.name !== pack);
  const stillClean = packs.flatMap(({ name }) => (clean.has(name) ? [name] : []));
  return await commitTurns.run(repoId, () =>
    takeOut(db, repo, {
      refsVersion: kept.refsVersion,
      clean: pack === null ? stillClean : [...stillClean, pack],
      doomed,
    }),
  );
}

/** Packs what the tips reach, without what is in packs that stay; returns the new pack's name, null if it would be empty. */
async function gather(
  context: PruneContext,
  folder: string,
  tips: readonly string[],
  staying: readonly Pack[],
): Promise<string | null> {
  const output = await runPatientGit({
    ...context,
    folder,
    args: [
      'pack-objects',
      '--revs',
      '--delta-base-offset',
      '--non-empty',
      '--quiet',
      '--honor-pack-keep',
      ...staying.map(({ name }) => `--keep-pack=${name}.pack`),
      join(packFolder(folder), 'pack'),
    ],
    input: tips.map((oid) => `${oid}\n`).join(''),
  });
  const hash = /^[0-9a-f]{40,64}$/m.exec(output)?.[0];
  if (hash === undefined) return null;
  // Its name has to survive a loss of power before the old packs may go.
  await syncFolder(packFolder(folder));
  return `pack-${hash}`;
}

async function takeOut(
  db: Kysely<DB>,
  { repoId, folder }: RepoOnDisk,
  { refsVersion, clean, doomed }: { refsVersion: bigint; clean: readonly string[]; doomed: Pack[] },
): Promise<PruneOutcome> {
  const names = doomed.map(({ name }) => name);
  return await inBoundedTransaction(db, async (trx) => {
    const repo = await lockRepo(trx, { repoId });
    if (repo?.refsVersion !== refsVersion) return { putOff: 'refs moved meanwhile' };
    // A commit-graph knows commits that are about to go, and git would take them to be there.
    await rm(join(folder, 'objects/info/commit-graph'), { force: true });
    await rm(join(folder, 'objects/info/commit-graphs'), { recursive: true, force: true });
    try {
      await hidePacks(folder, names);
      await changePruneStamp(folder, clean);
      // Fails if the lock was lost at any time.
      await readRepo(trx, repoId);
    } catch (error) {
      await showHiddenPacks(folder);
      throw error;
    }
    await deleteHiddenPacks(folder, names);
    return { packs: doomed };
  });
}
