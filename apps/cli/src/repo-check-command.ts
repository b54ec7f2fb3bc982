import type { DB } from '@sluice/db';
import { readRepo } from '@sluice/ref-store';
import type { Kysely } from 'kysely';
import { CommandError } from './command-error.ts';
import { iterateRepos } from './iterate-repos.ts';
import { ObjectStore, type ObjectCheck } from './object-store.ts';
import { Progress } from './progress.ts';
import { printableLine, type Terminal } from './terminal.ts';
import { withDatabase } from './with-database.ts';

export interface CheckOptions {
  readonly all?: true;
  readonly deep?: true;
}

const REFS_SHOWN = 5;

/** `sluice repo check`: fails if an object that a ref names is not on this machine's disk. */
export async function checkRepos(
  terminal: Terminal,
  repoId: string | undefined,
  { all, deep }: CheckOptions,
): Promise<void> {
  if ((repoId === undefined) !== (all === true))
    throw new CommandError('expected either a repository or --all', 'Such as sluice repo check acme/api.');
  const store = new ObjectStore(terminal);
  await store.assertHere();
  const { repos, withheld } = await withDatabase(terminal, (db) =>
    checkEach(terminal, db, { only: repoId, store, isDeep: deep === true }),
  );
  if (withheld === 0) return;
  throw new CommandError(
    repos === 1
      ? 'the repository lacks objects'
      : `${withheld} of ${repos} repositories ${withheld === 1 ? 'lacks' : 'lack'} objects`,
    `Bring them back from a backup or a clone, as docs/operating.md says; or set SLUICE_DATA_DIR, if ${store.dataDir} is not the pusher's.`,
  );
}

async function checkEach(
  terminal: Terminal,
  db: Kysely<DB>,
  { only, store, isDeep }: { only: string | undefined; store: ObjectStore; isDeep: boolean },
): Promise<{ repos: number; withheld: number }> {
  const progress = new Progress(terminal);
  let repos = 0;
  let withheld = 0;
  for await (const repoId of iterateRepos(db, only)) {
    if (terminal.signal.aborted)
      throw new CommandError(`interrupted before ${repoId}; what follows was not checked`, 'Run it again.');
    progress.show(repoId);
    const state = await readRepo(db, repoId);
    const repo = { repoId, objectFormat: state?.objectFormat ?? 'sha1' };
    const check = await store.check(db, repo, { isDeep });
    progress.clear();
    repos += 1;
    const isWhole = check.lost.length === 0 && check.gap === null;
    if (!isWhole) withheld += 1;
    terminal.stdout.write(describe(repoId, store.folderOf(repo), check));
  }
  return { repos, withheld };
}

function describe(repoId: string, folder: string, { refs, lost, gap }: ObjectCheck): string {
  const counted = `${repoId}: ${refs} ${refs === 1 ? 'ref' : 'refs'}`;
  if (lost.length === 0 && gap === null) return `${counted}, nothing is missing\n`;
  const lines = lost.slice(0, REFS_SHOWN).map(({ name, oid }) => `${name} names ${oid}, which is missing`);
  if (lost.length > lines.length) lines.push(`and ${lost.length - lines.length} more`);
  if (gap !== null) lines.push(`what the refs reach is not whole: ${gap}`);
  lines.push(`folder: ${folder}`);
  return `${counted}, ${lost.length} without their object\n${lines.map((line) => `  ${printableLine(line)}\n`).join('')}`;
}
