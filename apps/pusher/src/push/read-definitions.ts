import {
  DEFINITION_FILE,
  describeProblems,
  parseDefinition,
  type EffectDefinition,
} from '@sluice/effect-spec';
import type { LookUpOptions } from '../git/look-up-objects.ts';
import { CommitFileReader, type Meaningless } from './commit-file-reader.ts';

/** What a definition's commit holds: a definition, or why it is none. */
export type LoadedDefinition = { definition: EffectDefinition } | Meaningless;

/** Most in a repository: every push compares each of its refs with each of them. */
export const DEFINITIONS_MAX = 500;

const PROBLEMS_SHOWN = 3;

/** Reads definitions from their commits. */
export class DefinitionReader {
  readonly #files = new CommitFileReader((_file, content) => parse(content));

  /** The definitions at these commits; every OID asked for is in the result. */
  async read(
    oids: readonly string[],
    git: Omit<LookUpOptions, 'withContent'>,
  ): Promise<Map<string, LoadedDefinition>> {
    const loaded = await this.#files.read(
      oids.map((commit) => ({ commit, file: DEFINITION_FILE })),
      git,
    );
    return new Map(oids.map((oid, index) => [oid, loaded[index]!]));
  }
}

function parse(source: Buffer): LoadedDefinition {
  const parsed = parseDefinition(source);
  if ('definition' in parsed) return parsed;
  return { problem: describeProblems(DEFINITION_FILE, parsed.problems, PROBLEMS_SHOWN) };
}
