import {
  DEFINITION_FILE,
  DEFINITION_LIMITS,
  parseDefinition,
  type EffectDefinition,
} from '@sluice/effect-spec';
import { lookUpObjects, type LookUpOptions } from '../git/look-up-objects.ts';

/** What a definition's commit holds: a definition, or why it is none. */
export type LoadedDefinition = { definition: EffectDefinition } | { problem: string };

const ENTRIES_MAX = 10_000;
const PROBLEMS_SHOWN = 3;

/** Reads definitions from their commits, and remembers them: a commit never changes. Faults may: objects can be missing for a while. */
export class DefinitionReader {
  readonly #known = new Map<string, LoadedDefinition>();

  /** The definitions at these commits; every OID asked for is in the result. */
  async read(
    oids: readonly string[],
    git: Omit<LookUpOptions, 'withContent'>,
  ): Promise<Map<string, LoadedDefinition>> {
    const missing = [...new Set(oids)].filter((oid) => !this.#known.has(oid));
    const loaded = new Map(oids.map((oid) => [oid, this.#known.get(oid)] as const));
    for (const [oid, definition] of await load(missing, git)) {
      loaded.set(oid, definition);
      if ('definition' in definition) this.#remember(oid, definition);
    }
    return loaded as Map<string, LoadedDefinition>;
  }

  #remember(oid: string, definition: LoadedDefinition): void {
    if (this.#known.size >= ENTRIES_MAX) this.#known.delete(this.#known.keys().next().value!);
    this.#known.set(oid, definition);
  }
}

async function load(
  oids: readonly string[],
  git: Omit<LookUpOptions, 'withContent'>,
): Promise<Map<string, LoadedDefinition>> {
  // Sizes first: a file is read only if it can be a definition.
  const files = await lookUpObjects(
    oids.map((oid) => `${oid}:${DEFINITION_FILE}`),
    git,
  );
  const loaded = new Map<string, LoadedDefinition>();
  const small: { oid: string; blob: string }[] = [];
  for (const [index, oid] of oids.entries()) {
    const file = files[index] ?? null;
    if (file === null || file.kind !== 'blob') {
      loaded.set(oid, { problem: `expected a file ${DEFINITION_FILE} in the commit, got none` });
    } else if (file.bytes > DEFINITION_LIMITS.bytes) {
      loaded.set(oid, {
        problem: `${DEFINITION_FILE}: expected at most ${DEFINITION_LIMITS.bytes} bytes, got ${file.bytes}`,
      });
    } else small.push({ oid, blob: file.oid });
  }
  const contents = await lookUpObjects(
    small.map(({ blob }) => blob),
    { ...git, withContent: true },
  );
  for (const [index, { oid }] of small.entries())
    loaded.set(oid, parse(contents[index]?.content ?? Buffer.alloc(0)));
  return loaded;
}

function parse(source: Buffer): LoadedDefinition {
  const parsed = parseDefinition(source);
  if ('definition' in parsed) return parsed;
  const shown = parsed.problems
    .slice(0, PROBLEMS_SHOWN)
    .map(({ line, column, message }) => `${DEFINITION_FILE}:${line}:${column}: ${message}`);
  const more = parsed.problems.length - shown.length;
  return { problem: shown.join('; ') + (more > 0 ? `; and ${more} more` : '') };
}
