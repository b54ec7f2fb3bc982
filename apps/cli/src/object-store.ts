import { readdir, readFile, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { DB } from '@sluice/db';
import { NOTES, readRefs, repoFolder, type ObjectFormat, type RefRow } from '@sluice/ref-store';
import type { Kysely } from 'kysely';
import { CommandError } from './command-error.ts';
import { createGit, reason, type Git } from './git.ts';
import { readDataFolder } from './settings.ts';
import type { Terminal } from './terminal.ts';

/** What a repository takes on the disk. */
export interface DiskUse {
  packs: number;
  bytes: number;
  /** When it was last maintained; null: never. */
  maintainedAt: Date | null;
  /** What the pusher wrote down about pushes that the database lost; empty: nothing. */
  lostPushes: string[];
}

/** How a repository's refs compare with its objects. */
export interface ObjectCheck {
  refs: number;
  /** Refs whose object is not there. */
  lost: RefRow[];
  /** What else is missing, in git's words; null: nothing, or nobody asked. */
  gap: string | null;
}

export interface StoredRepo {
  repoId: string;
  objectFormat: ObjectFormat;
}

const ASKED_AT_ONCE = 10_000;
/** Objects as they were pushed: any writer may push refs below refs/replace/, which put others in their place. */
const AS_PUSHED = { GIT_NO_REPLACE_OBJECTS: '1' };

/** The object stores of the pusher whose data folder is on this machine. */
export class ObjectStore {
  readonly dataDir: string;
  readonly #git: Git;

  constructor(terminal: Terminal) {
    this.dataDir = resolve(terminal.cwd, readDataFolder(terminal.env));
    this.#git = createGit(terminal.cwd, terminal.env);
  }

  /** Whether a pusher keeps object stores there. */
  async isHere(): Promise<boolean> {
    return await exists(join(this.dataDir, 'repos'));
  }

  /** Fails unless it does: elsewhere everything would seem to be lost. */
  async assertHere(): Promise<void> {
    if (await this.isHere()) return;
    throw new CommandError(
      `expected the data folder of a pusher, got ${this.dataDir}`,
      "Run this where the pusher runs, with its SLUICE_DATA_DIR, as the pusher's user.",
    );
  }

  folderOf({ repoId, objectFormat }: StoredRepo): string {
    return repoFolder(this.dataDir, repoId, objectFormat);
  }

  /** Null: the repository is not on this disk. */
  async diskUse(repo: StoredRepo): Promise<DiskUse | null> {
    const folder = this.folderOf(repo);
    const names = await readdir(join(folder, 'objects', 'pack')).catch(() => null);
    if (names === null) return null;
    const packs = names.filter((name) => name.endsWith('.pack'));
    let bytes = 0;
    for (const name of packs)
      bytes += (await stat(join(folder, 'objects', 'pack', name)).catch(() => ({ size: 0 }))).size;
    const maintained = await stat(join(folder, NOTES.maintained)).catch(() => null);
    const lost = await readFile(join(folder, NOTES.lostPushes), 'utf8').catch(() => '');
    return {
      packs: packs.length,
      bytes,
      maintainedAt: maintained === null ? null : maintained.mtime,
      lostPushes: lost.split('\n').filter((line) => line !== ''),
    };
  }

  /** Looks for the object of every ref; `isDeep` walks from there to everything that the refs reach. */
  async check(db: Kysely<DB>, repo: StoredRepo, { isDeep }: { isDeep: boolean }): Promise<ObjectCheck> {
    const refs = await readRefs(db, repo.repoId);
    const folder = this.folderOf(repo);
    if (!(await exists(join(folder, 'objects')))) return { refs: refs.length, lost: refs, gap: null };
    const oids = [...new Set(refs.map(({ oid }) => oid))];
    const missing = await this.#missing(folder, oids);
    const lost = refs.filter(({ oid }) => missing.has(oid));
    const present = oids.filter((oid) => !missing.has(oid));
    return { refs: refs.length, lost, gap: isDeep ? await this.#gap(folder, present) : null };
  }

  async #missing(folder: string, oids: readonly string[]): Promise<ReadonlySet<string>> {
    const missing = new Set<string>();
    for (let at = 0; at < oids.length; at += ASKED_AT_ONCE) {
      const asked = oids.slice(at, at + ASKED_AT_ONCE);
      const args = ['--git-dir', folder, 'cat-file', '--batch-check=%(objectname)', '--buffer'];
      const output = await this.#git.must(args, { input: `${asked.join('\n')}\n`, env: AS_PUSHED });
      for (const line of output.split('\n')) {
        const [oid, state] = line.split(' ');
        if (state === 'missing') missing.add(oid!);
      }
    }
    return missing;
  }

  async #gap(folder: string, oids: readonly string[]): Promise<string | null> {
    // The commit-graph knows commits whether they are there or not.
    const config = ['-c', 'core.commitGraph=false'];
    const args = ['--git-dir', folder, ...config, 'rev-list', '--objects', '--quiet', '--stdin'];
    const input = oids.map((oid) => `${oid}\n`).join('');
    const { code, stderr } = await this.#git.run(args, { input, env: AS_PUSHED });
    return code === 0 ? null : reason(stderr);
  }
}

async function exists(path: string): Promise<boolean> {
  return await stat(path).then(
    () => true,
    () => false,
  );
}
