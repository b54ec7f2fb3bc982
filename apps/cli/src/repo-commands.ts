import { assertStorable, type DB } from '@sluice/db';
import { readRepo } from '@sluice/ref-store';
import { sql, type Kysely } from 'kysely';
import { CommandError } from './command-error.ts';
import { formatInstant } from './format-instant.ts';
import { ObjectStore } from './object-store.ts';
import { formatBytes } from './repo-list-command.ts';
import { printableLine, type Terminal } from './terminal.ts';
import { withDatabase } from './with-database.ts';

/** What `sluice repo set` was told; an absent field stays as it is, null takes a limit away. */
export interface RepoChanges {
  readonly cap?: number | null;
  readonly weight?: number;
  readonly maxQueued?: number | null;
  readonly isPaused?: boolean;
}

/** `sluice repo show`: the limits of a repository, where its log of pushes stands, and what is on this machine's disk. */
export async function showRepo(terminal: Terminal, repoId: string): Promise<void> {
  assertRepoId(repoId);
  const text = await withDatabase(terminal, async (db) => {
    const limits = await describeRepo(db, repoId);
    return limits === undefined ? undefined : limits + (await describeDisk(terminal, db, repoId));
  });
  if (text === undefined) {
    throw new CommandError(
      `there is no repository called ${repoId}`,
      'sluice repo list shows the ones there are; a push makes another, and so does sluice repo set.',
    );
  }
  terminal.stdout.write(text);
}

/** `sluice repo set`: changes limits; a repository that no push has reached yet becomes known by it. */
export async function setRepo(terminal: Terminal, repoId: string, changes: RepoChanges): Promise<void> {
  assertRepoId(repoId);
  if (Object.keys(changes).length === 0) {
    throw new CommandError(
      'expected something to set, got no option',
      'Give --cap, --weight, --max-queued, --pause or --resume.',
    );
  }
  const { text, pushes } = await withDatabase(terminal, async (db) => {
    const values = {
      ...(changes.cap === undefined ? {} : { cap: changes.cap }),
      ...(changes.weight === undefined ? {} : { weight: changes.weight }),
      ...(changes.maxQueued === undefined ? {} : { max_queued: changes.maxQueued }),
    };
    // Pausing twice keeps the first instant: "since when" is what a person wants to know.
    const pause = sql<Date | null>`coalesce(repo.paused_at, now())`;
    const repo = await db
      .insertInto('repo')
      .values({
        repo_id: repoId,
        ...values,
        ...(changes.isPaused === true ? { paused_at: sql<Date>`now()` } : {}),
      })
      .onConflict((conflict) =>
        conflict.column('repo_id').doUpdateSet({
          ...values,
          ...(changes.isPaused === undefined ? {} : { paused_at: changes.isPaused ? pause : null }),
          repo_id: repoId,
        }),
      )
      .returning('op_seq')
      .executeTakeFirstOrThrow();
    return { text: await describeRepo(db, repoId), pushes: repo.op_seq };
  });
  terminal.stdout.write(text ?? '');
  // As after a mistyped name.
  if (pushes === 0n) {
    terminal.stderr.write(`nobody has pushed to ${printableLine(repoId)} yet; the limits wait for it\n`);
  }
}

async function describeRepo(db: Kysely<DB>, repoId: string): Promise<string | undefined> {
  const repo = await db.selectFrom('repo').selectAll().where('repo_id', '=', repoId).executeTakeFirst();
  if (repo === undefined) return undefined;
  const facts: [string, string][] = [
    ['repository', repo.repo_id],
    ['cap', repo.cap === null ? "the dispatcher's default" : String(repo.cap)],
    ['weight', String(repo.weight)],
    ['max queued', repo.max_queued === null ? 'no limit' : String(repo.max_queued)],
    ['paused', repo.paused_at === null ? 'no' : `since ${formatInstant(repo.paused_at)}`],
    ['objects', repo.object_format],
    ['head', repo.head_ref],
    ['pushes', String(repo.op_seq)],
    ['last push', repo.op_tip ?? 'none yet'],
  ];
  return describeFacts(facts);
}

function describeFacts(facts: readonly (readonly [name: string, value: string])[]): string {
  return facts.map(([name, value]) => `${name.padEnd(11)} ${printableLine(value)}\n`).join('');
}

async function describeDisk(terminal: Terminal, db: Kysely<DB>, repoId: string): Promise<string> {
  const store = new ObjectStore(terminal);
  const state = await readRepo(db, repoId);
  if (state === undefined || state.refsVersion === 0n || !(await store.isHere())) return '';
  const repo = { repoId, objectFormat: state.objectFormat };
  const use = await store.diskUse(repo);
  const { refs, lost } = await store.check(db, repo, { isDeep: false });
  return describeFacts([
    ['refs', lost.length === 0 ? String(refs) : `${refs}, ${lost.length} without their object: withheld`],
    ['folder', store.folderOf(repo)],
    ['packs', use === null ? 'none: the folder is gone' : `${use.packs}, ${formatBytes(use.bytes)}`],
    ['maintained', use?.maintainedAt ? formatInstant(use.maintainedAt) : 'not yet'],
    ...(use?.lostPushes ?? []).map((line) => ['lost', line] as const),
  ]);
}

/** Fails for what is no name of a repository. */
export function assertRepoId(repoId: string): void {
  assertStorable('repo', repoId);
  if (/^[A-Za-z0-9._/@:+-]{1,200}$/.test(repoId)) return;
  throw new CommandError(
    `expected a repository such as acme/api, got ${JSON.stringify(repoId.slice(0, 60))}`,
    'sluice queue shows the ones that have work.',
  );
}
