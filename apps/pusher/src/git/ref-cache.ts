import { open, readFile, rename, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import type { DB } from '@sluice/db';
import { readRefs, readRepo, type RefRow, type RepoState } from '@sluice/ref-store';
import type { Kysely } from 'kysely';
import { KeyedTurns } from '../keyed-turns.ts';
import { withLockFile } from './folder-lock.ts';
import { ensureRepoFolder, repoFolder, syncFolder } from './repo-folder.ts';

/** A repository whose refs on disk are those of the database, as of the moment it was asked for or later. */
export interface FreshRepo {
  state: RepoState;
  folder: string;
}

/**
 * Keeps each bare repository's `packed-refs` and `HEAD` equal to the database, which is the truth. The first line of
 * `packed-refs` carries the version it was written from, as a word that git ignores, so the file cannot be newer or
 * older than what it says.
 */
export class RefCache {
  readonly #db: Kysely<DB>;
  readonly #dataDir: string;
  readonly #turns = new KeyedTurns();

  constructor(db: Kysely<DB>, dataDir: string) {
    this.#db = db;
    this.#dataDir = dataDir;
  }

  /** Brings the cache up to date; undefined if there is no such repository. */
  async refresh(repoId: string): Promise<FreshRepo | undefined> {
    const state = await readRepo(this.#db, repoId);
    if (state === undefined) return undefined;
    const folder = repoFolder(this.#dataDir, repoId, state.objectFormat);
    await ensureRepoFolder(folder, repoId, state.objectFormat);
    if ((await readStamp(folder)) === stampOf(state)) return { state, folder };
    return await this.#turns.run(repoId, () => this.#rewrite(repoId, folder));
  }

  async #rewrite(repoId: string, folder: string): Promise<FreshRepo | undefined> {
    // The name git itself locks the file by, so that nothing else rewrites it meanwhile.
    return await withLockFile(join(folder, 'packed-refs.lock'), async () => {
      // Read under the lock: whoever comes later writes something newer, never older.
      const found = await this.#readSnapshot(repoId, await readStamp(folder));
      if (found === undefined) return undefined;
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
  if ((await readFile(headPath, 'utf8').catch(() => '')) !== head) await replaceFile(headPath, head);
  // `sorted` only: with `peeled`, git would believe that a tag without a peeled line is no tag.
  const lines = refs.map((ref) => `${ref.oid} ${ref.name}\n`);
  await replaceFile(
    join(folder, 'packed-refs'),
    `# pack-refs with: sorted ${stampOf(state)} \n${lines.join('')}`,
  );
  await syncFolder(folder);
}

async function replaceFile(path: string, text: string): Promise<void> {
  // Of this process alone: if two ever write at once, each writes a whole file, and the stamp tells which is in place.
  const temporary = `${path}.${process.pid}.sluice-new`;
  try {
    const file = await open(temporary, 'w');
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await unlink(temporary).catch(() => undefined);
    throw error;
  }
}
