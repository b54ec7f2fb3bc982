import { setImmediate as othersFirst } from 'node:timers/promises';
import { isFileMode, treeEntry } from '@sluice/ref-store';
import { lookUpObjects, type FoundObject, type LookUpOptions } from '../git/look-up-objects.ts';

/** A small file at the root of a commit. */
export interface CommitFile {
  commit: string;
  file: string;
}

/** Why a file means nothing. */
export interface Meaningless {
  problem: string;
}

type Git = Omit<LookUpOptions, 'withContent'>;

/** A larger file is not read. */
const FILE_BYTES_MAX = 64 * 1024;
/** Of the folder that a file is in, as git stores it: some hundred thousand names. */
const FOLDER_BYTES_MAX = 16 * 1024 * 1024;
/** Of the files that are in memory at once before they are understood. */
const BATCH_BYTES_MAX = 4 * 1024 * 1024;
/** Of the files whose meanings are remembered: those take as much memory again as what they were read from. */
const KNOWN_BYTES_MAX = 64 * 1024 * 1024;
/** What a remembered file costs, however short it is. */
const ENTRY_BYTES = 1024;

/**
 * Reads small files of commits, and remembers what they mean: a commit never changes. Faults may, since objects can be
 * missing for a while. Understanding a file may take tens of milliseconds, so everybody else's work comes between each
 * two of them.
 */
export class CommitFileReader<T extends object> {
  readonly #parse: (file: string, content: Buffer) => T | Meaningless;
  readonly #known = new Map<string, { meaning: T; bytes: number }>();
  readonly #knownBytesMax: number;
  #knownBytes = 0;

  constructor(
    parse: (file: string, content: Buffer) => T | Meaningless,
    { knownBytesMax = KNOWN_BYTES_MAX }: { knownBytesMax?: number } = {},
  ) {
    this.#parse = parse;
    this.#knownBytesMax = knownBytesMax;
  }

  /** What the files mean, in their order. */
  async read(wanted: readonly CommitFile[], git: Git): Promise<(T | Meaningless)[]> {
    const meanings = new Map<string, T | Meaningless>();
    const missing = new Map<string, CommitFile>();
    for (const one of wanted) {
      const key = keyOf(one);
      const known = this.#known.get(key);
      if (known === undefined) missing.set(key, one);
      else meanings.set(key, known.meaning);
    }
    for (const [key, meaning] of await this.#load(missing, git)) meanings.set(key, meaning);
    return wanted.map((one) => meanings.get(keyOf(one))!);
  }

  async #load(missing: ReadonlyMap<string, CommitFile>, git: Git): Promise<Map<string, T | Meaningless>> {
    // Sizes first: a file is read only if it can be what is expected.
    const [found, modes] = await Promise.all([
      lookUpObjects([...missing.keys()], git),
      readModes([...missing.values()], git),
    ]);
    const meanings = new Map<string, T | Meaningless>();
    const contents = new Map<string, Content>();
    for (const [index, [key, { file }]] of [...missing].entries()) {
      const one = found[index] ?? null;
      const mode = modes[index];
      if (one?.kind !== 'blob' || !isFileMode(mode)) {
        const got = (mode === undefined ? undefined : KINDS.get(mode)) ?? 'none';
        meanings.set(key, { problem: `expected a file ${file} in the commit, got ${got}` });
      } else if (one.bytes > FILE_BYTES_MAX) {
        const problem = `${file}: expected at most ${FILE_BYTES_MAX} bytes, got ${one.bytes}`;
        meanings.set(key, { problem });
      } else {
        const content = contents.get(`${file} ${one.oid}`) ?? {
          file,
          oid: one.oid,
          bytes: one.bytes,
          keys: [],
        };
        contents.set(`${file} ${one.oid}`, content);
        content.keys.push(key);
      }
    }
    for (const batch of inBatches([...contents.values()])) {
      const texts = await lookUpObjects(
        batch.map(({ oid }) => oid),
        { ...git, withContent: true },
      );
      for (const [index, { file, keys, bytes }] of batch.entries()) {
        const text = texts[index]?.content;
        const meaning =
          text === undefined
            ? { problem: `expected a file ${file} in the commit, got none` }
            : this.#parse(file, text);
        for (const key of keys) {
          meanings.set(key, meaning);
          if (!('problem' in meaning)) this.#remember(key, { meaning, bytes: bytes + ENTRY_BYTES });
        }
        await othersFirst();
      }
    }
    return meanings;
  }

  #remember(key: string, entry: { meaning: T; bytes: number }): void {
    this.#forget(key);
    this.#known.set(key, entry);
    this.#knownBytes += entry.bytes;
    for (const oldest of this.#known.keys()) {
      if (this.#knownBytes <= this.#knownBytesMax) break;
      this.#forget(oldest);
    }
  }

  #forget(key: string): void {
    this.#knownBytes -= this.#known.get(key)?.bytes ?? 0;
    this.#known.delete(key);
  }
}

/** What else may have the name of a file. */
const KINDS = new Map([
  ['120000', 'a symbolic link (mode 120000); commit the text itself'],
  ['160000', 'a submodule (mode 160000); commit the text itself'],
  ['40000', 'a folder of that name'],
  ['', 'it among more names than are looked through'],
]);

function isTooLarge(folder: FoundObject | null): boolean {
  return folder !== null && folder.bytes > FOLDER_BYTES_MAX;
}

/** The mode of each file in the folder of its commit; undefined: there is none; empty: the folder is too large. */
async function readModes(files: readonly CommitFile[], git: Git): Promise<(string | undefined)[]> {
  const folders = await lookUpObjects(
    files.map(({ commit }) => `${commit}^{tree}`),
    git,
  );
  const modes: (string | undefined)[] = folders.map((folder) => (isTooLarge(folder) ? '' : undefined));
  const readable = folders.map((folder) => (isTooLarge(folder) ? null : folder));
  for (const batch of inBatches(
    readable.map((folder, index) => ({ folder, index, bytes: folder?.bytes ?? 0 })),
  )) {
    const asked = batch.filter((one): one is typeof one & { folder: FoundObject } => one.folder !== null);
    const trees = await lookUpObjects(
      asked.map(({ folder }) => folder.oid),
      { ...git, withContent: true },
    );
    for (const [at, { index }] of asked.entries()) {
      const { commit, file } = files[index]!;
      const content = trees[at]?.content ?? Buffer.alloc(0);
      modes[index] = treeEntry(content, file, commit.length / 2)?.mode;
    }
  }
  return modes;
}

/** What one or several of the wanted files hold. */
interface Content {
  file: string;
  oid: string;
  bytes: number;
  keys: string[];
}

/** What git knows a file by. */
function keyOf({ commit, file }: CommitFile): string {
  return `${commit}:${file}`;
}

function inBatches<T extends { bytes: number }>(contents: readonly T[]): T[][] {
  const batches: T[][] = [];
  let room = 0;
  for (const content of contents) {
    if (batches.length === 0 || content.bytes > room) {
      batches.push([]);
      room = BATCH_BYTES_MAX;
    }
    batches.at(-1)!.push(content);
    room -= content.bytes;
  }
  return batches;
}
