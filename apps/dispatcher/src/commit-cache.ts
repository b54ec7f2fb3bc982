import { createHash, randomBytes } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { runGit } from '@sluice/executors';
import { untilAnswered } from '@sluice/service-kit';
import { isTransient, type PusherClient } from './pusher-client.ts';
import { removeFolder } from './remove-folder.ts';

export interface CommitWanted {
  repoId: string;
  objectFormat: 'sha1' | 'sha256';
  commit: string;
}

/** A bare repository that has the commit; it stays while this is not disposed. */
export interface CachedCommit extends AsyncDisposable {
  readonly gitDir: string;
  /** Its objects turned out to be damaged or missing: the next borrower fetches anew. */
  readonly distrust: () => Promise<void>;
}

export interface CommitCache {
  /** Fetches the commit without its history, unless it is there. Throws a GitError when that fails for good. */
  borrow(wanted: CommitWanted, signal: AbortSignal): Promise<CachedCommit>;
}

export interface CommitCacheOptions {
  pusher: PusherClient;
  /** Belongs to this process alone. */
  folder: string;
  /** How long a pusher that does not answer is waited for; by default two minutes. */
  retryMs?: number;
  /** A repository with more fetches than this is fetched anew, which drops what is no longer used; by default 200. */
  fetchesMax?: number;
  /** More repositories than this are not kept; by default 200. */
  reposMax?: number;
}

interface Entry {
  readonly gitDir: string;
  users: number;
  fetches: number;
  isRetired: boolean;
  /** What is known to be there; undefined before the repository was looked at. */
  commits: Set<string> | undefined;
  /** Fetches into one repository take turns: they share its list of shallow commits. */
  turn: Promise<unknown>;
}

/** Keeps what was fetched, within bounds, so that effects of the same repository transfer only what is new. */
export async function openCommitCache(options: CommitCacheOptions): Promise<CommitCache> {
  const { pusher, folder, retryMs = 120_000, fetchesMax = 200, reposMax = 200 } = options;
  const entries = new Map<string, Entry>();
  for (const name of await readdir(folder)) {
    const key = name.split('.')[0]!;
    // Of the previous process: it may have been killed in the middle of a fetch, which the first use finds out.
    if (entries.has(key)) await removeFolder(join(folder, name));
    else entries.set(key, newEntry(join(folder, name), 1));
  }

  const release = async (entry: Entry): Promise<void> => {
    entry.users -= 1;
    if (entry.isRetired && entry.users === 0) await removeFolder(entry.gitDir);
  };
  const retire = async (key: string, entry: Entry): Promise<void> => {
    if (entries.get(key) === entry) entries.delete(key);
    entry.isRetired = true;
    entry.users += 1;
    await release(entry);
  };
  const open = async (key: string): Promise<Entry> => {
    let entry = entries.get(key);
    if (entry !== undefined && entry.fetches >= fetchesMax) {
      await retire(key, entry);
      entry = entries.get(key);
    }
    entry ??= newEntry(join(folder, `${key}.${randomBytes(6).toString('hex')}`), 0);
    // Last used comes last.
    entries.delete(key);
    entries.set(key, entry);
    entry.users += 1;
    for (const [oldest, other] of entries) {
      if (entries.size <= reposMax) break;
      if (other.users === 0) await retire(oldest, other);
    }
    return entry;
  };
  const fetchOnce = async (entry: Entry, wanted: CommitWanted, signal: AbortSignal): Promise<void> => {
    const { gitDir } = entry;
    entry.commits ??= await openRepository(gitDir, wanted.objectFormat, signal);
    if (entry.commits.has(wanted.commit)) return;
    entry.fetches += 1;
    const refspec = `${wanted.commit}:${KEPT}${wanted.commit}`;
    await runGit({
      gitDir,
      signal,
      env: pusher.env,
      timeoutMs: FETCH_MS_MAX,
      args: ['fetch', ...QUIETLY, '--depth=1', pusher.repoUrl(wanted.repoId), refspec],
    });
    entry.commits.add(wanted.commit);
  };
  const fetch = (entry: Entry, wanted: CommitWanted, signal: AbortSignal): Promise<void> => {
    const isRetryable = (error: unknown): boolean => isTransient(error);
    const mine = entry.turn.then(() =>
      untilAnswered(() => fetchOnce(entry, wanted, signal), { boundMs: retryMs, isRetryable, signal }),
    );
    entry.turn = mine.catch(() => {});
    return mine;
  };

  return {
    borrow: async (wanted, signal) => {
      const key = createHash('sha256')
        .update(`${wanted.objectFormat} ${wanted.repoId}`)
        .digest('hex')
        .slice(0, 40);
      for (let attempt = 1; ; attempt += 1) {
        const entry = await open(key);
        const isNew = entry.fetches === 0;
        try {
          await fetch(entry, wanted, signal);
          return {
            gitDir: entry.gitDir,
            distrust: () => retire(key, entry),
            [Symbol.asyncDispose]: () => release(entry),
          };
        } catch (error) {
          await release(entry);
          signal.throwIfAborted();
          // A lock file or half an object of a killed process is no reason to fail: start over without the cache.
          if (isNew || isTransient(error) || attempt === 2) throw error;
          await retire(key, entry);
        }
      }
    },
  };
}

function newEntry(gitDir: string, fetches: number): Entry {
  return { gitDir, fetches, users: 0, isRetired: false, commits: undefined, turn: Promise.resolve() };
}

/** Refs that keep fetched commits, and tell the pusher what is here already. */
const KEPT = 'refs/kept/';
const QUIETLY = ['--quiet', '--no-tags', '--no-write-fetch-head', '--no-recurse-submodules'];
const FETCH_MS_MAX = 30 * 60_000;

async function openRepository(
  gitDir: string,
  objectFormat: 'sha1' | 'sha256',
  signal: AbortSignal,
): Promise<Set<string>> {
  await runGit({
    args: ['init', '--quiet', '--bare', '--template=', `--object-format=${objectFormat}`, gitDir],
    signal,
  });
  const names = await runGit({ gitDir, signal, args: ['for-each-ref', '--format=%(objectname)', KEPT] });
  return new Set(names.split('\n').filter((name) => name !== ''));
}
