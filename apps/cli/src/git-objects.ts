import { isFileMode, treeEntry } from '@sluice/ref-store';

/** What git found for an expression. */
export interface FoundObject {
  oid: string;
  kind: string;
  bytes: number;
}

/** Runs `git cat-file` in one of its batch modes, with an expression on each line of its input. */
export type CatFile = (mode: '--batch' | '--batch-check', input: string) => Promise<Buffer>;

const EXPRESSIONS_MAX = 10_000;
const CONTENT_BYTES_MAX = 8 * 1024 * 1024;
/** Of the folder that a file is in: a larger one is not looked through, as the pusher looks through none. */
const FOLDER_BYTES_MAX = 16 * 1024 * 1024;

/**
 * Looks up objects by full OIDs with suffixes of this program, never by a name from outside, in one git process for
 * many. The answers are in the order of the questions; null: there is no such object.
 */
export async function findObjects(
  catFile: CatFile,
  expressions: readonly string[],
): Promise<(FoundObject | null)[]> {
  const found: (FoundObject | null)[] = [];
  for (let at = 0; at < expressions.length; at += EXPRESSIONS_MAX) {
    const asked = expressions.slice(at, at + EXPRESSIONS_MAX);
    const output = await catFile('--batch-check', asLines(asked));
    const lines = output.toString('latin1').split('\n');
    found.push(...asked.map((_, index) => foundIn(lines[index] ?? '')));
  }
  return found;
}

/**
 * Finds the file of this name at the root of each commit, in their order; null: there is none, or what has the name is a
 * link, a submodule or a folder. Git alone would give the path that a link names for the file.
 */
export async function findFiles(
  catFile: CatFile,
  commits: readonly string[],
  name: string,
): Promise<(FoundObject | null)[]> {
  const found = await findObjects(
    catFile,
    commits.flatMap((commit) => [`${commit}:${name}`, `${commit}^{tree}`]),
  );
  const files: (FoundObject | null)[] = commits.map(() => null);
  const folders = commits.flatMap((_, index) => {
    const [file, folder] = [found[2 * index] ?? null, found[2 * index + 1] ?? null];
    if (file?.kind !== 'blob' || folder === null || folder.bytes > FOLDER_BYTES_MAX) return [];
    return [{ index, file, folder }];
  });
  let at = 0;
  for await (const tree of iterateContents(
    catFile,
    folders.map(({ folder }) => folder),
  )) {
    const { index, file } = folders[at]!;
    if (isFileMode(treeEntry(tree, name, file.oid.length / 2)?.mode)) files[index] = file;
    at += 1;
  }
  return files;
}

/** What objects that were found hold, in their order. */
export async function readContents(catFile: CatFile, objects: readonly FoundObject[]): Promise<Buffer[]> {
  const contents: Buffer[] = [];
  for await (const content of iterateContents(catFile, objects)) contents.push(content);
  return contents;
}

/** The same one by one, in one git process for some megabytes. */
async function* iterateContents(
  catFile: CatFile,
  objects: readonly FoundObject[],
): AsyncGenerator<Buffer, void, undefined> {
  let batch: FoundObject[] = [];
  let bytes = 0;
  for (const object of objects) {
    if (batch.length > 0 && bytes + object.bytes > CONTENT_BYTES_MAX) {
      yield* await readBatch(catFile, batch);
      [batch, bytes] = [[], 0];
    }
    batch.push(object);
    bytes += object.bytes;
  }
  if (batch.length > 0) yield* await readBatch(catFile, batch);
}

async function readBatch(catFile: CatFile, batch: readonly FoundObject[]): Promise<Buffer[]> {
  const output = await catFile('--batch', asLines(batch.map(({ oid }) => oid)));
  let at = 0;
  return batch.map(({ oid, kind, bytes }) => {
    at += `${oid} ${kind} ${bytes}\n`.length;
    const content = output.subarray(at, at + bytes);
    at += bytes + 1;
    return content;
  });
}

function asLines(expressions: readonly string[]): string {
  return `${expressions.join('\n')}\n`;
}

function foundIn(line: string): FoundObject | null {
  const [, oid, kind, bytes] = /^([0-9a-f]+) (commit|tree|blob|tag) (\d+)$/.exec(line) ?? [];
  return oid === undefined ? null : { oid, kind: kind!, bytes: Number(bytes) };
}
