import type { DB } from '@sluice/db';
import { isFileMode, readObjects, treeEntry, type SmallObject } from '@sluice/ref-store';
import type { Kysely } from 'kysely';
import type { Git } from '../git.ts';
import { findFiles, findObjects, readContents, type CatFile, type FoundObject } from '../git-objects.ts';

/** What an OID names; all null: it cannot be read. */
export interface ObjectFacts {
  kind: string | null;
  /** The commit it is, or that a tag leads to. */
  commit: string | null;
  /** That commit's tree. */
  tree: string | null;
}

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
    const found = await findObjects(
      this.#catFile,
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

  /**
   * The file of this name at the root of each commit; a commit whose file cannot be read, or is larger, is left out, and
   * so is one where a link or a submodule has the name, which the pusher takes for no file either.
   */
  async files(
    db: Kysely<DB>,
    { commits, name, bytesMax }: { commits: readonly string[]; name: string; bytesMax: number },
  ): Promise<Map<string, Buffer>> {
    const files = await this.#storedFiles(db, { commits, name, bytesMax });
    const others = [...new Set(commits)].filter((oid) => !files.has(oid));
    const found = await findFiles(this.#catFile, others, name);
    const readable = new Map<string, FoundObject>();
    for (const [index, commit] of others.entries()) {
      const file = found[index] ?? null;
      if (file !== null && file.bytes <= bytesMax) readable.set(commit, file);
    }
    const contents = await readContents(this.#catFile, [...readable.values()]);
    for (const [index, commit] of [...readable.keys()].entries()) files.set(commit, contents[index]!);
    return files;
  }

  async #storedFiles(
    db: Kysely<DB>,
    { commits, name, bytesMax }: { commits: readonly string[]; name: string; bytesMax: number },
  ): Promise<Map<string, Buffer>> {
    const read = (oids: string[]) => readObjects(db, { repoId: this.#repoId, oids });
    const stored = [...(await read([...commits]))].filter(([, { kind }]) => kind === 'commit');
    const trees = await read(stored.map(([, commit]) => treeOf(commit)));
    const blobs = new Map<string, string>();
    for (const [oid, commit] of stored) {
      const tree = trees.get(treeOf(commit));
      const entry = tree === undefined ? undefined : treeEntry(Buffer.from(tree.bytes), name, oid.length / 2);
      if (entry !== undefined && isFileMode(entry.mode)) blobs.set(oid, entry.oid);
    }
    const contents = await read([...blobs.values()]);
    return new Map(
      [...blobs].flatMap(([oid, blob]) => {
        const content = contents.get(blob);
        if (content?.kind !== 'blob' || content.bytes.length > bytesMax) return [];
        return [[oid, Buffer.from(content.bytes)] as const];
      }),
    );
  }

  /** Nothing if there is no such folder: then no object of it can be read. */
  readonly #catFile: CatFile = async (mode, input) => {
    const { code, stdout } = await this.#git.run(['--git-dir', this.#gitDir, 'cat-file', mode], {
      input,
      // As they were pushed, whatever refs below refs/replace/ say.
      env: { GIT_NO_REPLACE_OBJECTS: '1' },
    });
    return code === 0 ? stdout : Buffer.alloc(0);
  };
}

function treeOf({ bytes }: SmallObject): string {
  return /^tree ([0-9a-f]+)\n/.exec(Buffer.from(bytes).toString('latin1'))?.[1] ?? '';
}
