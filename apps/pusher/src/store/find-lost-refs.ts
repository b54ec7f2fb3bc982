import { access, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { DB } from '@sluice/db';
import { iterateRefs, type RefRow } from '@sluice/ref-store';
import type { Kysely } from 'kysely';
import { gitEnvironment } from '../git/git-environment.ts';
import { startGit } from '../git/start-git.ts';
import { writeTo } from '../git/write-to.ts';
import { unavailable } from '../http-error.ts';

/** How a repository's refs compare with its object store. */
export interface RefCheck {
  /** How many refs there are. */
  refs: number;
  /** How many of them name an object that is not there. */
  lost: number;
  /** The first of those. */
  example: RefRow | null;
}

const TIMEOUT_MS = 5 * 60_000;
const CHUNK_CHARACTERS = 64 * 1024;
/** Refs that were answered are let go in batches. */
const ANSWERED_MAX = 10_000;

/**
 * Looks for the object of every ref, in one git process and with a bounded part of the refs in memory. Ends at the
 * objects that refs name; it does not walk from there.
 */
export async function findLostRefs(
  db: Kysely<DB>,
  repoId: string,
  { folder, home, memoryBytesMax }: { folder: string; home: string; memoryBytesMax?: number },
): Promise<RefCheck> {
  const check: RefCheck = { refs: 0, lost: 0, example: null };
  const note = (ref: RefRow, isLost: boolean): void => {
    check.refs += 1;
    if (!isLost) return;
    check.lost += 1;
    check.example ??= ref;
  };
  // Git does not even start without these two folders, and not every backup keeps one that is empty.
  const isThere = await exists(join(folder, 'objects'));
  if (isThere) await mkdir(join(folder, 'refs'), { recursive: true });
  if (isThere) await askGit(iterateRefs(db, repoId), { folder, home, note, memoryBytesMax });
  else for await (const ref of iterateRefs(db, repoId)) note(ref, true);
  return check;
}

async function askGit(
  refs: AsyncIterable<RefRow>,
  {
    folder,
    home,
    note,
    memoryBytesMax,
  }: {
    folder: string;
    home: string;
    note: (ref: RefRow, isLost: boolean) => void;
    memoryBytesMax: number | undefined;
  },
): Promise<void> {
  const git = await startGit({
    args: ['--git-dir', folder, 'cat-file', '--batch-check=%(objectname)', '--buffer'],
    env: gitEnvironment({ home, config: [['safe.directory', folder]] }),
    ...(memoryBytesMax === undefined ? {} : { memoryBytesMax }),
  });
  const timer = setTimeout(() => git.end('SIGKILL'), TIMEOUT_MS);
  const asked: RefRow[] = [];
  const ask = async (): Promise<void> => {
    let chunk = '';
    for await (const ref of refs) {
      asked.push(ref);
      chunk += `${ref.oid}\n`;
      if (chunk.length < CHUNK_CHARACTERS) continue;
      await writeTo(git.stdin, chunk);
      chunk = '';
    }
    git.stdin.end(chunk);
  };
  const listen = async (): Promise<void> => {
    let answered = 0;
    for await (const line of createInterface({ input: git.stdout })) {
      note(asked[answered]!, line.endsWith(' missing'));
      answered += 1;
      if (answered < ANSWERED_MAX) continue;
      asked.splice(0, answered);
      answered = 0;
    }
    asked.splice(0, answered);
  };
  try {
    await Promise.all([ask(), listen()]);
    const code = await git.exited;
    if (code !== 0 || asked.length > 0)
      throw unavailable('git could not read the repository', new Error(git.errors()));
  } finally {
    clearTimeout(timer);
    git.end('SIGKILL');
  }
}

async function exists(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    () => false,
  );
}
