/** What one effect definition says, with every default filled in. */
export interface EffectDefinition {
  readonly on: {
    /** Ref patterns; `!` in front excludes. At least one does not exclude. */
    readonly refs: readonly string[];
    /** Whether the deletion of a matching ref counts. */
    readonly deletes: boolean;
    /** Whether refs below `refs/meta/` count. */
    readonly meta: boolean;
  };
  readonly command: Command;
  /** Variables for the command; never one that starts with `SLUICE_`. */
  readonly env: Readonly<Record<string, string>>;
  /** Container image; null: the executor's default. */
  readonly image: string | null;
  readonly timeoutMs: number;
  readonly network: boolean;
  readonly concurrency: {
    /** May hold `{ref}`; see `concurrencyGroup`. */
    readonly group: string;
    /** Whether a newer effect replaces the group's waiting ones. */
    readonly supersede: boolean;
  } | null;
  /** Higher runs first within the repository. */
  readonly priority: number;
  readonly maxAttempts: number;
  /** What must differ for the effect to run again; see `dedupKey`. */
  readonly dedup: Dedup;
}

/** Shell text for `sh -c`, or a program with its arguments and no shell. */
export type Command = { readonly run: string } | { readonly argv: readonly string[] };

export type Dedup = 'ref' | 'commit' | 'push';

/** The file of the definition's tree that is read. */
export const DEFINITION_FILE = 'effect.yaml';

/** Bounds of a definition; a longer or larger one is refused. */
export const DEFINITION_LIMITS = {
  bytes: 64 * 1024,
  /** Of YAML, white space included. The longest definition that says what one may say has about 3,000. */
  tokens: 10_000,
  /** Of lists and mappings inside one another. A definition has 3. */
  depth: 50,
  patterns: 64,
  patternBytes: 256,
  runBytes: 32 * 1024,
  argv: 256,
  argumentBytes: 8 * 1024,
  env: 128,
  envNameBytes: 128,
  envValueBytes: 8 * 1024,
  imageBytes: 300,
  groupBytes: 200,
  timeoutMs: 24 * 60 * 60 * 1000,
  priority: 1000,
  maxAttempts: 100,
  problems: 20,
} as const;

/** What a definition that is silent about it gets. */
export const DEFINITION_DEFAULTS = { timeoutMs: 10 * 60 * 1000, maxAttempts: 3 } as const;
