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

/** What objects that were found hold, in their order, in one git process for some megabytes. */
export async function readContents(catFile: CatFile, objects: readonly FoundObject[]): Promise<Buffer[]> {
  const contents: Buffer[] = [];
  let batch: FoundObject[] = [];
  let bytes = 0;
  for (const object of objects) {
    if (batch.length > 0 && bytes + object.bytes > CONTENT_BYTES_MAX) {
      contents.push(...(await readBatch(catFile, batch)));
      [batch, bytes] = [[], 0];
    }
    batch.push(object);
    bytes += object.bytes;
  }
  if (batch.length > 0) contents.push(...(await readBatch(catFile, batch)));
  return contents;
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
