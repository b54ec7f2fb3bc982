import { resolve } from 'node:path';
import type { DB } from '@sluice/db';
import { readRepo, repoFolder } from '@sluice/ref-store';
import type { Kysely } from 'kysely';
import { CommandError } from './command-error.ts';
import { createGit } from './git.ts';
import { iterateRepos } from './iterate-repos.ts';
import { Progress } from './progress.ts';
import { RepoObjects } from './rebuild/repo-objects.ts';
import { rebuildRepo, type RepoRebuild } from './rebuild/rebuild-repo.ts';
import { readDataFolder, readEffectsPerPush } from './settings.ts';
import { printableLine, type Terminal } from './terminal.ts';
import { withDatabase } from './with-database.ts';

export interface RebuildOptions {
  readonly repo?: string;
  readonly dryRun?: true;
}

interface Totals extends Record<
  'repos' | 'pushes' | 'back' | 'withResult' | 'withRow' | 'superseded',
  number
> {
  /** Repositories of which something could not be read. */
  gaps: number;
}

const SHOWN_PER_REPO = 50;

/** `sluice rebuild`: brings back the effects of a lost queue. Fails if the log leaves something open. */
export async function rebuild(terminal: Terminal, { repo, dryRun }: RebuildOptions): Promise<void> {
  const isDryRun = dryRun === true;
  const effectsMax = readEffectsPerPush(terminal.env);
  const totals: Totals = {
    repos: 0,
    pushes: 0,
    back: 0,
    withResult: 0,
    withRow: 0,
    superseded: 0,
    gaps: 0,
  };
  await withDatabase(terminal, async (db) => {
    for await (const repoId of iterateRepos(db, repo)) {
      const result = await rebuildOne(terminal, db, { repoId, isDryRun, effectsMax });
      totals.repos += 1;
      for (const count of ['pushes', 'withResult', 'withRow', 'superseded'] as const)
        totals[count] += result[count];
      totals.back += result.back.length;
      totals.gaps += result.gaps.length > 0 ? 1 : 0;
      terminal.stdout.write(describeEffects(repoId, result, isDryRun));
      terminal.stderr.write(describeGaps(repoId, result));
    }
  });
  terminal.stdout.write(describeTotals(totals, isDryRun));
  if (totals.gaps === 0) return;
  throw new CommandError(
    `what ${totals.gaps} of ${totals.repos} repositories asked for is not fully known`,
    `Bring back the objects in ${readDataFolder(terminal.env)} from a backup, or set SLUICE_DATA_DIR to the pusher's, and run this again.`,
  );
}

async function rebuildOne(
  terminal: Terminal,
  db: Kysely<DB>,
  { repoId, isDryRun, effectsMax }: { repoId: string; isDryRun: boolean; effectsMax: number },
): Promise<RepoRebuild> {
  const progress = new Progress(terminal);
  const { signal } = terminal;
  const state = await readRepo(db, repoId);
  const dataDir = resolve(terminal.cwd, readDataFolder(terminal.env));
  const gitDir = repoFolder(dataDir, repoId, state?.objectFormat ?? 'sha1');
  const objects = new RepoObjects({ repoId, gitDir, git: createGit(terminal.cwd, terminal.env) });
  const onProgress = (pushes: number): void =>
    progress.show(`${repoId}: ${pushes} of ${state?.opSeq} pushes`);
  try {
    return await rebuildRepo(db, { repoId, objects, effectsMax, isDryRun, onProgress, signal });
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new CommandError(`interrupted in ${repoId}; those after it were not looked at`, 'Run it again.');
  } finally {
    progress.clear();
  }
}

function describeEffects(repoId: string, { back }: RepoRebuild, isDryRun: boolean): string {
  if (back.length === 0) return '';
  const lines = back
    .slice(0, SHOWN_PER_REPO)
    .map(
      ({ effectId, name, ref, pushId }) =>
        `${effectId === null ? 'an effect' : `effect ${effectId}`} ${name} for ${ref} of push ${pushId}`,
    );
  if (back.length > lines.length) lines.push(`and ${back.length - lines.length} more`);
  const heading = `${repoId}: ${effects(back.length)} ${isDryRun ? 'would come back' : 'came back'}`;
  return `${heading}\n${lines.map((line) => `  ${printableLine(line)}\n`).join('')}`;
}

function describeGaps(repoId: string, { gaps }: RepoRebuild): string {
  const lines = gaps.slice(0, SHOWN_PER_REPO).map(({ what, firstPushId, pushes }) => {
    const which = pushes === 1 ? `push ${firstPushId}` : `${pushes} pushes from ${firstPushId} on`;
    return `${repoId}: missing ${what}; what ${which} asked of it is not known`;
  });
  if (gaps.length > lines.length) lines.push(`${repoId}: and ${gaps.length - lines.length} more are missing`);
  return lines.map((line) => `${printableLine(line)}\n`).join('');
}

function describeTotals(totals: Totals, isDryRun: boolean): string {
  const { repos, pushes, back, withResult, withRow, superseded } = totals;
  return (
    `${repos} ${repos === 1 ? 'repository' : 'repositories'}, ${pushes} ${pushes === 1 ? 'push' : 'pushes'}: ` +
    `${effects(back)} ${isDryRun ? 'would come back' : 'came back'}; ${withResult} with a result, ` +
    `${withRow} in the queue or its history, ${superseded} replaced by a newer one\n`
  );
}

function effects(count: number): string {
  return `${count} ${count === 1 ? 'effect' : 'effects'}`;
}
