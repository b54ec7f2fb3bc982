import { join } from 'node:path';
import type { DB } from '@sluice/db';
import { readRefsSince, readRepo, type ObjectFormat, type RepoState } from '@sluice/ref-store';
import type { Kysely } from 'kysely';
import { KeyedTurns } from '../keyed-turns.ts';
import { adoptedAs } from './adopted-folder.ts';
import { withLockFile } from './folder-lock.ts';
import { removeLooseRefs } from './loose-refs.ts';
import {
  BOOT,
  changeRefs,
  readHeader,
  readLines,
  writePackedRefs,
  type PackedRefsHeader,
  type RefView,
} from './packed-refs.ts';
import { readAllRefs } from './read-all-refs.ts';
import { RefMirror } from './ref-mirror.ts';
import { replaceFile } from './replace-file.ts';
import { ensureRefsFolder, ensureRepoFolder } from './repo-folder.ts';

/** A repository as it was at one moment, and where it is. */
export interface OpenRepo {
  state: RepoState;
  folder: string;
}

/** A repository whose refs on disk are those of the database, as of the moment it was asked for or later. */
export interface FreshRepo extends OpenRepo {
  /** Where git finds the refs: the folder, or another one that has no objects. */
  gitDir: string;
}

/** A repository that was pushed to, and may have been made by that. */
export interface PushedRepo {
  folder: string;
  objectFormat: ObjectFormat;
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

/** Where the refs are with results among them. */
const WITH_RESULTS = 'with-results';

/**
 * Keeps each bare repository's `packed-refs` and `HEAD` equal to the database, which is the truth. The first line of
 * `packed-refs` carries the version it was written from, as a word that git ignores, so the file cannot be newer or
 * older than what it says. A file that is behind is brought up to date at the price of what changed, by the log.
 *
 * There are as many results as effects ran, and no push or fetch of branches has use for them, so they are left out; who
 * asks for them is served from a second folder, which holds refs alone and is behind until then. An adopted repository,
 * which git serves by itself as well, has everything in one place, and on disk before anybody is answered.
 */
export class RefCache {
  readonly #db: Kysely<DB>;
  readonly #options: RefCacheOptions;
  readonly #turns = new KeyedTurns();
  /** The refs without results, in memory. */
  readonly mirror: RefMirror;

  constructor(options: RefCacheOptions) {
    this.#db = options.db;
    this.#options = options;
    this.mirror = new RefMirror(options.db);
  }

  /** Brings the cache up to date; undefined if there is no such repository. */
  async refresh(repoId: string, view: RefView = 'no-results'): Promise<FreshRepo | undefined> {
    const state = await readRepo(this.#db, repoId);
    if (state === undefined) return undefined;
    const folder = this.#options.folderOf(repoId, state.objectFormat);
    // Before an empty folder could take the place of one that was lost.
    await this.#options.admit?.(repoId, folder);
    await ensureRepoFolder(folder, repoId, state.objectFormat);
    return await this.#catchUp(repoId, state, await placeOf(folder, view));
  }

  /** Makes sure, ahead of a push, that the cache is as the repository was when it was opened, or newer. */
  async preparePush(repoId: string, { state, folder }: OpenRepo): Promise<void> {
    await this.#catchUp(repoId, state, await placeOf(folder, 'no-results'));
  }

  /** Brings the cache up to date after a push, which it is known to be behind of. */
  async followPush(repoId: string, { folder, objectFormat }: PushedRepo): Promise<void> {
    // Lets it see what the push brought.
    await this.#options.admit?.(repoId, folder);
    const place = await placeOf(folder, 'no-results');
    await this.#turns.run(place.gitDir, () => this.#rewrite(repoId, place, objectFormat));
  }

  async #catchUp(repoId: string, state: RepoState, place: Place): Promise<FreshRepo | undefined> {
    const { folder, gitDir } = place;
    if (isOf(readHeader(gitDir), state, place)) return { state, folder, gitDir };
    return await this.#turns.run(gitDir, () => this.#rewrite(repoId, place, state.objectFormat));
  }

  async #rewrite(repoId: string, place: Place, objectFormat: ObjectFormat): Promise<FreshRepo | undefined> {
    const { folder, gitDir } = place;
    if (gitDir !== folder) await ensureRefsFolder(gitDir, objectFormat);
    // The name git itself locks the file by, so that nothing else rewrites it meanwhile.
    return await withLockFile(join(gitDir, 'packed-refs.lock'), async () => {
      // Read under the lock: whoever comes later writes something newer, never older.
      const header = readHeader(gitDir);
      const found = await this.#read(repoId, place, header);
      if (found === undefined) return undefined;
      const { state, lines } = found;
      // Also after the machine went down, perhaps together with the database.
      const lost = lostState(header ?? readHeader(gitDir, { isSure: false }), state);
      if (lost !== null) await this.#options.onLost?.({ repoId, folder, ...lost });
      if (lines !== null && !isOf(header, state, place)) {
        // Whatever brought a file that is not ours, a backup or a clone, may have brought refs that git would believe first.
        if (header === null && place.isOurs) await removeLooseRefs(gitDir);
        await writeHead(place, state, header);
        await writePackedRefs(gitDir, headerOf(state, place), lines);
      }
      return { state, folder, gitDir };
    });
  }

  /** State and lines of one instant; no lines if they are those that are there. */
  async #read(
    repoId: string,
    place: Place,
    header: PackedRefsHeader | null,
  ): Promise<{ state: RepoState; lines: Buffer | null } | undefined> {
    if (place.view === 'no-results') return await this.mirror.read(repoId);
    const since = header?.view === 'all' ? sinceOf(header) : null;
    const found = since === null ? undefined : await readRefsSince(this.#db, { repoId, since, except: null });
    if (found !== undefined && found.changes !== null) {
      const { state, changes } = found;
      if (isOf(header, state, place)) return { state, lines: null };
      const lines = await readLines(place.gitDir, header!);
      if (lines !== null) return { state, lines: changeRefs(lines, state.objectFormat, changes) };
    }
    // The transaction ends before anything is written.
    return await readAllRefs(this.#db, repoId, { except: null });
  }
}

interface Place {
  folder: string;
  gitDir: string;
  view: RefView;
  /** Whether only this program serves what is there, which looks at the header first. */
  isOurs: boolean;
}

async function placeOf(folder: string, view: RefView): Promise<Place> {
  if ((await adoptedAs(folder)) !== null) return { folder, gitDir: folder, view: 'all', isOurs: false };
  const gitDir = view === 'all' ? join(folder, WITH_RESULTS) : folder;
  return { folder, gitDir, view, isOurs: true };
}

/** Names a state of the refs. The op record's id is part of it: after a failover a version may be used twice. */
function stampOf(state: RepoState): string {
  return `sluice=${state.refsVersion}:${state.opTip ?? 'none'}:${state.headRef}`;
}

function headerOf(state: RepoState, { view, isOurs }: Place): PackedRefsHeader {
  // What only we serve need not be on disk: after a crash of the machine it counts for nothing.
  return { stamp: stampOf(state), view, boot: isOurs ? BOOT : null };
}

function isOf(header: PackedRefsHeader | null, state: RepoState, place: Place): boolean {
  const wanted = headerOf(state, place);
  return header?.stamp === wanted.stamp && header.view === wanted.view && header.boot === wanted.boot;
}

function sinceOf({
  stamp,
}: PackedRefsHeader): { refsVersion: bigint; opTip: string; headRef: string } | null {
  const [, version, opTip, headRef] = /^sluice=(\d+):([0-9a-f]+):(.+)$/.exec(stamp) ?? [];
  if (version === undefined || opTip === undefined || headRef === undefined) return null;
  return { refsVersion: BigInt(version), opTip, headRef };
}

/** A cache is never newer than the database, unless that lost what it had. */
function lostState(
  header: PackedRefsHeader | null,
  state: RepoState,
): Pick<LostState, 'refsVersion' | 'pushId'> | null {
  const since = header === null ? null : sinceOf(header);
  if (since === null || since.opTip === state.opTip || since.refsVersion < state.refsVersion) return null;
  return { refsVersion: since.refsVersion, pushId: since.opTip };
}

async function writeHead(
  { gitDir, isOurs }: Place,
  { headRef }: RepoState,
  header: PackedRefsHeader | null,
): Promise<void> {
  // Which branch is the default of an adopted repository is said there, with `git symbolic-ref`.
  if (!isOurs || (header !== null && sinceOf(header)?.headRef === headRef)) return;
  await replaceFile(join(gitDir, 'HEAD'), `ref: ${headRef}\n`);
}
