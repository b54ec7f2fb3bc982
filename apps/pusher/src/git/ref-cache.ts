import { open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { DB } from '@sluice/db';
import { readRefs, readRepo, type ObjectFormat, type RefRow, type RepoState } from '@sluice/ref-store';
import type { Kysely } from 'kysely';
import { adoptedAs } from '../adopted/adopted-folder.ts';
import { KeyedTurns } from '../keyed-turns.ts';
import { withLockFile } from './folder-lock.ts';
import { replaceFile } from './replace-file.ts';
import { ensureRepoFolder, syncFolder } from './repo-folder.ts';

/** A repository whose refs on disk are those of the database, as of the moment it was asked for or later. */
export interface FreshRepo {
  state: RepoState;
  folder: string;
}

/** Where a repository is on this machine. */
export type FolderOf = (repoId: string, objectFormat: ObjectFormat) => string;

/** A state of the refs that the cache was written from, and of which the database knows nothing. */
export interface LostState {
  repoId: string;
  folder: string;
  /** What the cache was written from. */
  refsVersion: bigint;
  /** The last push that it had. */
  pushId: string;
}

export interface RefCacheOptions {
  db: Kysely<DB>;
  folderOf: FolderOf;
  /** Asked before a repository is opened; throws if nobody may have it. */
  admit?: (repoId: string, folder: string) => Promise<void>;
  /** The database went back in time. The cache is replaced when this is done. */
  onLost?: (lost: LostState) => Promise<void>;
}

/**
 * Keeps each bare repository's `packed-refs` and `HEAD` equal to the database, which is the truth. The first line of
 * `packed-refs` carries the version it was written from, as a word that git ignores, so the file cannot be newer or
 * older than what it says.
 */
export class RefCache {
  readonly #db: Kysely<DB>;
  readonly #options: RefCacheOptions;
  readonly #turns = new KeyedTurns();

  constructor(options: RefCacheOptions) {
    this.#db = options.db;
    this.#options = options;
  }

  /** Brings the cache up to date; undefined if there is no such repository. */
  async refresh(repoId: string): Promise<FreshRepo | undefined> {
    const state = await readRepo(this.#db, repoId);
    if (state === undefined) return undefined;
    const folder = this.#options.folderOf(repoId, state.objectFormat);
    // Before an empty folder could take the place of one that was lost.
    await this.#options.admit?.(repoId, folder);
    await ensureRepoFolder(folder, repoId, state.objectFormat);
    if ((await readStamp(folder)) === stampOf(state)) return { state, folder };
    return await this.#turns.run(repoId, () => this.#rewrite(repoId, folder));
  }

  async #rewrite(repoId: string, folder: string): Promise<FreshRepo | undefined> {
    // The name git itself locks the file by, so that nothing else rewrites it meanwhile.
    return await withLockFile(join(folder, 'packed-refs.lock'), async () => {
      // Read under the lock: whoever comes later writes something newer, never older.
      const stamp = await readStamp(folder);
      const found = await this.#readSnapshot(repoId, stamp);
      if (found === undefined) return undefined;
      const lost = lostState(stamp, found.state);
      if (lost !== null) await this.#options.onLost?.({ repoId, folder, ...lost });
      if (found.refs !== null) await writeCache(folder, found.state, found.refs);
      return { state: found.state, folder };
    });
  }

  /** State and refs of one instant; no refs if they are those of `stamp`. The transaction ends before anything is written. */
  async #readSnapshot(
    repoId: string,
    stamp: string | null,
  ): Promise<{ state: RepoState; refs: RefRow[] | null } | undefined> {
    return await this.#db
      .transaction()
      .setIsolationLevel('repeatable read')
      .setAccessMode('read only')
      .execute(async (trx) => {
        const state = await readRepo(trx, repoId);
        if (state === undefined) return undefined;
        return { state, refs: stampOf(state) === stamp ? null : await readRefs(trx, repoId) };
      });
  }
}

/** Names a state of the refs. The op record's id is part of it: after a failover a version may be used twice. */
function stampOf(state: RepoState): string {
  return `sluice=${state.refsVersion}:${state.opTip ?? 'none'}:${state.headRef}`;
}

/** A cache is never newer than the database, unless that lost what it had. */
function lostState(stamp: string | null, state: RepoState): Pick<LostState, 'refsVersion' | 'pushId'> | null {
  const [, version, pushId] = /^sluice=(\d+):([0-9a-f]+):/.exec(stamp ?? '') ?? [];
  if (version === undefined || pushId === undefined || pushId === state.opTip) return null;
  return BigInt(version) < state.refsVersion ? null : { refsVersion: BigInt(version), pushId };
}

const HEADER_BYTES_MAX = 2048;

async function readStamp(folder: string): Promise<string | null> {
  try {
    await using file = await open(join(folder, 'packed-refs'), 'r');
    const { buffer, bytesRead } = await file.read(Buffer.alloc(HEADER_BYTES_MAX), 0, HEADER_BYTES_MAX, 0);
    return (
      /^# pack-refs with: sorted (sluice=\S+) \n/.exec(buffer.toString('utf8', 0, bytesRead))?.[1] ?? null
    );
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

async function writeCache(folder: string, state: RepoState, refs: readonly RefRow[]): Promise<void> {
  const head = `ref: ${state.headRef}\n`;
  const headPath = join(folder, 'HEAD');
  // Which branch is the default of an adopted repository is said there, with `git symbolic-ref`.
  const isOurs = (await adoptedAs(folder)) === null;
  if (isOurs && (await readFile(headPath, 'utf8').catch(() => '')) !== head)
    await replaceFile(headPath, head);
  // `sorted` only: with `peeled`, git would believe that a tag without a peeled line is no tag.
  const lines = refs.map((ref) => `${ref.oid} ${ref.name}\n`);
  await replaceFile(
    join(folder, 'packed-refs'),
    `# pack-refs with: sorted ${stampOf(state)} \n${lines.join('')}`,
  );
  await syncFolder(folder);
}
