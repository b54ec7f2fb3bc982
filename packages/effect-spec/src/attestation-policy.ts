import { isScalar, type Node } from 'yaml';
import { META_PREFIX } from './effect-name.ts';
import { readMapping, type Field } from './read-fields.ts';
import { describe, quote, readYaml, type Findings, type Problem } from './read-yaml.ts';
import { matchesPattern } from './ref-pattern.ts';

/** A repository's policy lives here. */
export const CONFIG_REF = 'refs/meta/config';

/** What its commit holds. */
export const POLICY_FILE = 'policy.yaml';

const LEVELS = ['off', 'optional', 'required'] as const;

/** Whether a push has to be signed: `off` ignores signatures, `optional` checks the ones that come. */
export type AttestationLevel = (typeof LEVELS)[number];

/** Levels by ref pattern, for repositories with members. */
export interface Policy {
  readonly attestation: readonly { readonly pattern: string; readonly level: AttestationLevel }[];
}

export type ParsedPolicy = { readonly policy: Policy } | { readonly problems: readonly Problem[] };

const PATTERNS_MAX = 100;
const PATTERN_BYTES_MAX = 300;

/**
 * Reads the text of a `policy.yaml`. Never throws: whatever is wrong comes back as problems with line and column.
 *
 * ```yaml
 * attestation:
 *   refs/heads/**: required
 *   refs/heads/wip/**: off
 * ```
 */
export function parsePolicy(source: string | Uint8Array): ParsedPolicy {
  const { root, findings } = readYaml(source);
  const policy = findings.problems.length > 0 ? undefined : readPolicy(root, findings);
  const { problems } = findings;
  return policy === undefined || problems.length > 0 ? { problems } : { policy };
}

function readPolicy(root: Node | null, findings: Findings): Policy | undefined {
  const what = 'a mapping with "attestation"';
  if (root === null) {
    findings.add(0, `expected ${what}, got nothing`);
    return undefined;
  }
  const fields = readMapping({ value: root, place: root }, what, ['attestation'], findings);
  const field = fields?.get('attestation');
  if (field === undefined) {
    if (fields !== undefined) findings.add(root, 'expected "attestation", got no such key');
    return undefined;
  }
  const levels = readMapping(field, 'a mapping of ref patterns to levels', 'any', findings);
  if (levels === undefined) return undefined;
  if (levels.size > PATTERNS_MAX) {
    findings.add(field.place, `expected at most ${PATTERNS_MAX} patterns, got ${levels.size}`);
    return undefined;
  }
  return {
    attestation: [...levels].flatMap(([pattern, level]) => readLevel(pattern, level, findings)),
  };
}

function readLevel(pattern: string, field: Field, findings: Findings): Policy['attestation'] {
  const isPattern = pattern.startsWith('refs/') && Buffer.byteLength(pattern) <= PATTERN_BYTES_MAX;
  if (!isPattern || /[\s\p{Cc}?[\]\\^~:!]/u.test(pattern)) {
    findings.add(field.key, `expected a ref pattern such as refs/heads/**, got ${quote(pattern)}`);
    return [];
  }
  const level = LEVELS.find((known) => isScalar(field.value) && field.value.value === known);
  if (level !== undefined) return [{ pattern, level }];
  findings.add(field.place, `expected ${LEVELS.join(', ')}, got ${describe(field.value)}`);
  return [];
}

/**
 * The level that a push is judged at: the strictest one over all its refs. A ref takes the strictest level of the
 * patterns that match it; without any, `required` below `refs/meta/`, which decides what pushes run, else `optional`.
 */
export function attestationLevel(policy: Policy | null, refs: readonly string[]): AttestationLevel {
  return strictest(
    refs.map((ref) => {
      const levels = (policy?.attestation ?? []).filter(({ pattern }) => matchesPattern(pattern, ref));
      if (levels.length > 0) return strictest(levels.map(({ level }) => level));
      return ref.startsWith(META_PREFIX) ? 'required' : 'optional';
    }),
  );
}

function strictest(levels: readonly AttestationLevel[]): AttestationLevel {
  return LEVELS[Math.max(0, ...levels.map((level) => LEVELS.indexOf(level)))]!;
}
