import { gitEnvironment } from './git-environment.ts';
import { readGit } from './read-git.ts';
import { NOT_DELTIFIED } from './serve-configuration.ts';

export interface FoundObject {
  oid: string;
  kind: string;
  bytes: number;
  /** Only if contents were asked for. */
  content?: Buffer;
}

export interface LookUpOptions {
  folder: string;
  home: string;
  /** Most memory of git, for what somebody else chose; upkeep looks up what it knows. */
  memoryBytesMax?: number;
  /** Also read what the objects hold. */
  withContent?: boolean;
}

const TIMEOUT_MS = 30_000;
const OUTPUT_BYTES_MAX = 256 * 1024 * 1024;

/**
 * Looks up objects by expressions such as `<oid>^{commit}` or `<oid>:effect.yaml`, in one git process. The answers are
 * in the order of the questions; null: there is no such object. Expressions come from this program, with full OIDs:
 * never a ref name, never a line break.
 */
export async function lookUpObjects(
  expressions: readonly string[],
  { folder, home, withContent = false, ...limits }: LookUpOptions,
): Promise<(FoundObject | null)[]> {
  if (expressions.length === 0) return [];
  const output = await readGit({
    args: ['--git-dir', folder, 'cat-file', withContent ? '--batch' : '--batch-check'],
    env: gitEnvironment({ home, config: [['safe.directory', folder], NOT_DELTIFIED] }),
    input: `${expressions.join('\n')}\n`,
    timeoutMs: TIMEOUT_MS,
    bytesMax: OUTPUT_BYTES_MAX,
    ...limits,
  });
  return parseAnswers(output, expressions.length, withContent);
}

function parseAnswers(output: Buffer, count: number, withContent: boolean): (FoundObject | null)[] {
  const answers: (FoundObject | null)[] = [];
  let at = 0;
  while (answers.length < count) {
    const end = output.indexOf(0x0a, at);
    if (end === -1) throw new Error('git cat-file answered fewer objects than it was asked for');
    const line = /^([0-9a-f]+) (commit|tree|blob|tag) (\d+)$/.exec(output.toString('latin1', at, end));
    at = end + 1;
    if (line === null) {
      answers.push(null);
      continue;
    }
    const found: FoundObject = { oid: line[1]!, kind: line[2]!, bytes: Number(line[3]) };
    if (withContent) {
      found.content = output.subarray(at, at + found.bytes);
      at += found.bytes + 1;
    }
    answers.push(found);
  }
  return answers;
}
