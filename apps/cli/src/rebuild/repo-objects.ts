import type { DB } from '@sluice/db';
import { readObjects, type SmallObject } from '@sluice/ref-store';
import type { Kysely } from 'kysely';
import type { Git } from '../git.ts';

/** What an OID names; all null: it cannot be read. */
export interface ObjectFacts {
  kind: string | null;
  /** The commit it is, or that a tag leads to. */
  commit: string | null;
  /** That commit's tree. */
  tree: string | null;
}

interface Found {
  oid: string;
  kind: string;
  bytes: number;
}

const EXPRESSIONS_MAX = 10_000;
const CONTENT_BYTES_MAX = 8 * 1024 * 1024;

/** Git objects of one repository: those that the database stores, and the rest from the pusher's data folder. */
export class RepoObjects {
  readonly #repoId: string;
  readonly #gitDir: string;
  readonly #git: Git;

  constructor({ repoId, gitDir, git }: { repoId: string; gitDir: string; git: Git }) {
    this.#repoId = repoId;
    this.#gitDir = gitDir;
    this.#git = git;
  }

  async facts(db: Kysely<DB>, oids: Iterable<string>): Promise<Map<string, ObjectFacts>> {
    const distinct = [...new Set(oids)];
    const facts = new Map<string, ObjectFacts>();
    for (const [oid, object] of await readObjects(db, { repoId: this.#repoId, oids: distinct })) {
      if (object.kind === 'commit') facts.set(oid, { kind: 'commit', commit: oid, tree: treeOf(object) });
    }
    const others = distinct.filter((oid) => !facts.has(oid));
    const found = await this.#find(
      others.flatMap((oid) => [oid, `${oid}^{commit}`, `${oid}^{commit}^{tree}`]),
    );
    for (const [index, oid] of others.entries()) {
      facts.set(oid, {
        kind: found[3 * index]?.kind ?? null,
        commit: found[3 * index + 1]?.oid ?? null,
        tree: found[3 * index + 2]?.oid ?? null,
      });
    }
    return facts;
  }

  /** The file of this name in the tree of each commit; a commit whose file cannot be read, or is larger, is left out. */
  async files(
    db: Kysely<DB>,
    { commits, name, bytesMax }: { commits: readonly string[]; name: string; bytesMax: number },
  ): Promise<Map<string, Buffer>> {
    const files = await this.#storedFiles(db, commits, name);
    const others = [...new Set(commits)].filter((oid) => !files.has(oid));
    const found = await this.#find(others.map((oid) => `${oid}:${name}`));
    let batch: { commit: string; file: Found }[] = [];
    let bytes = 0;
    const flush = async (): Promise<void> => {
      const contents = await this.#read(batch.map(({ file }) => file));
      for (const [index, { commit }] of batch.entries()) files.set(commit, contents[index]!);
      batch = [];
      bytes = 0;
    };
    for (const [index, commit] of others.entries()) {
      const file = found[index];
      if (file?.kind !== 'blob' || file.bytes > bytesMax) continue;
      if (bytes + file.bytes > CONTENT_BYTES_MAX) await flush();
      batch.push({ commit, file });
      bytes += file.bytes;
    }
    await flush();
    return files;
  }

  async #storedFiles(db: Kysely<DB>, commits: readonly string[], name: string): Promise<Map<string, Buffer>> {
    const read = (oids: string[]) => readObjects(db, { repoId: this.#repoId, oids });
    const stored = [...(await read([...commits]))].filter(([, { kind }]) => kind === 'commit');
    const trees = await read(stored.map(([, commit]) => treeOf(commit)));
    const blobs = new Map<string, string>();
    for (const [oid, commit] of stored) {
      const tree = trees.get(treeOf(commit));
      const blob = tree === undefined ? undefined : entryOf(tree, name, oid.length / 2);
      if (blob !== undefined) blobs.set(oid, blob);
    }
    const contents = await read([...blobs.values()]);
    return new Map(
      [...blobs].flatMap(([oid, blob]) => {
        const content = contents.get(blob);
        return content?.kind === 'blob' ? [[oid, Buffer.from(content.bytes)] as const] : [];
      }),
    );
  }

  /** Full OIDs with suffixes of this program, never a name from outside. Null: there is no such object. */
  async #find(expressions: readonly string[]): Promise<(Found | null)[]> {
    const found: (Found | null)[] = [];
    for (let at = 0; at < expressions.length; at += EXPRESSIONS_MAX) {
      const asked = expressions.slice(at, at + EXPRESSIONS_MAX);
      const output = await this.#catFile('--batch-check', asked);
      const lines = output.toString('latin1').split('\n');
      found.push(...asked.map((_, index) => readFound(lines[index] ?? '')));
    }
    return found;
  }

  async #read(objects: readonly Found[]): Promise<Buffer[]> {
    if (objects.length === 0) return [];
    const asked = objects.map(({ oid }) => oid);
    const output = await this.#catFile('--batch', asked);
    let at = 0;
    return objects.map(({ oid, kind, bytes }) => {
      at += `${oid} ${kind} ${bytes}\n`.length;
      const content = output.subarray(at, at + bytes);
      at += bytes + 1;
      return content;
    });
  }

  /** Nothing if there is no such folder: then no object of it can be read. */
  async #catFile(mode: '--batch' | '--batch-check', asked: readonly string[]): Promise<Buffer> {
    const { code, stdout } = await this.#git.run(['--git-dir', this.#gitDir, 'cat-file', mode], {
      input: `${asked.join('\n')}\n`,
      // As they were pushed, whatever refs below refs/replace/ say.
      env: { GIT_NO_REPLACE_OBJECTS: '1' },
    });
    return code === 0 ? stdout : Buffer.alloc(0);
  }
}

function readFound(line: string): Found | null {
  const [, oid, kind, bytes] = /^([0-9a-f]+) (commit|tree|blob|tag) (\d+)$/.exec(line) ?? [];
  return oid === undefined ? null : { oid, kind: kind!, bytes: Number(bytes) };
}

function treeOf({ bytes }: SmallObject): string {
  return /^tree ([0-9a-f]+)\n/.exec(Buffer.from(bytes).toString('latin1'))?.[1] ?? '';
}

/** The OID that a tree has under the name: entries are `<mode> <name>\0` and the OID's bytes. */
function entryOf({ bytes }: SmallObject, name: string, oidBytes: number): string | undefined {
  const tree = Buffer.from(bytes);
  for (let at = 0; at < tree.length;) {
    const end = tree.indexOf(0, at);
    if (end === -1) return undefined;
    const oidEnd = end + 1 + oidBytes;
    const [, entry] = tree.toString('latin1', at, end).split(' ', 2);
    if (entry === name) return tree.toString('hex', end + 1, oidEnd);
    at = oidEnd;
  }
  return undefined;
}
