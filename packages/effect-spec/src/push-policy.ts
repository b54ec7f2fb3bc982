import { DEFINITION_PREFIX, META_PREFIX, RESULT_PREFIX } from './effect-name.ts';
import { costOf, patternSteps, stepsFor, TURN_STEPS } from './matching-steps.ts';
import { MEMBER_PREFIX, type Role } from './parse-member.ts';
import { comparePatterns } from './pattern-precedence.ts';
import { matchesPattern } from './ref-pattern.ts';

/** A repository's policy lives here. */
export const CONFIG_REF = 'refs/meta/config';

/** What its commit holds. */
export const POLICY_FILE = 'policy.yaml';

/** From the most lenient to the strictest. */
export const ATTESTATION_LEVELS = ['off', 'optional', 'required'] as const;

/** Whether a push has to be signed: `off` ignores signatures, `optional` checks the ones that come. */
export type AttestationLevel = (typeof ATTESTATION_LEVELS)[number];

/** What is decided about a ref. */
export interface Clauses {
  /** Who may push it. An admin is a writer as well; a worker is nothing else. */
  readonly roles: readonly Role[];
  /** Whether it may move to anything but a descendant. */
  readonly force: boolean;
  readonly delete: boolean;
  readonly attestation: AttestationLevel;
}

/** What is decided about the refs that match a pattern; what it does not say, another rule decides. */
export type Rule = { readonly pattern: string } & {
  readonly [K in keyof Clauses]?: Clauses[K] | undefined;
};

/** Who may push what: the rules of a repository and those that hold everywhere, the ones that decide first in front. */
export interface Policy {
  readonly rules: readonly Rule[];
}

/** A decision, and the pattern of the rule that made it. */
export interface Decided<T> {
  readonly value: T;
  readonly pattern: string;
}

export type RuleInForce = { readonly [K in keyof Clauses]: Decided<Clauses[K]> };

const ADMINS_SIGN = { roles: ['admin'], attestation: 'required' } as const;

/**
 * The rules that hold where a repository says nothing. What decides about everybody's pushes is named exactly, so that
 * no rule decides about it but one that names it too: see {@link comparePatterns}.
 */
const EVERYWHERE: readonly Rule[] = [
  { pattern: 'refs/**', roles: ['writer'], force: true, delete: true, attestation: 'optional' },
  ...within(META_PREFIX, ADMINS_SIGN),
  ...within(DEFINITION_PREFIX, ADMINS_SIGN),
  ...within(MEMBER_PREFIX, { ...ADMINS_SIGN, delete: false }),
  ...within(`${CONFIG_REF}/`, ADMINS_SIGN),
  ...within(RESULT_PREFIX, { roles: ['worker'], attestation: 'off' }),
];

/** The folder's own name as well: a ref of that name would keep every ref below it from being made. */
function within(folder: string, clauses: Omit<Rule, 'pattern'>): Rule[] {
  return [folder.slice(0, -1), `${folder}**`].map((pattern) => ({ pattern, ...clauses }));
}

/** The policy of a repository with these rules; none: what holds everywhere. */
export function createPolicy(rules: readonly Rule[]): Policy {
  // Sorting keeps the order of equals: of two rules with one pattern, the repository's decides.
  return {
    rules: [...rules, ...EVERYWHERE].toSorted((a, b) => comparePatterns(a.pattern, b.pattern)),
  };
}

/** What is in force for a ref, given by its full name: of all rules that match, the first that says something on it. */
export function ruleInForce({ rules }: Policy, ref: string): RuleInForce {
  const matching = rules.filter(({ pattern }) => matchesPattern(pattern, ref));
  const decide = <K extends keyof Clauses>(key: K): Decided<Clauses[K]> => {
    const rule = matching.find((one) => one[key] !== undefined);
    if (rule === undefined) throw new TypeError(`expected a full ref name, got ${JSON.stringify(ref)}`);
    return { value: rule[key] as Clauses[K], pattern: rule.pattern };
  };
  return {
    roles: decide('roles'),
    force: decide('force'),
    delete: decide('delete'),
    attestation: decide('attestation'),
  };
}

/** The same for each of several refs, in turns of a few milliseconds: there may be many of them, and many rules. */
export function* rulesInForce(policy: Policy, refs: readonly string[]): Generator<undefined, RuleInForce[]> {
  const cost = costOf(policy.rules.map(({ pattern }) => pattern));
  const found: RuleInForce[] = [];
  let steps = 0;
  for (const ref of refs) {
    found.push(ruleInForce(policy, ref));
    steps += stepsFor(cost, ref);
    if (steps < TURN_STEPS) continue;
    yield;
    steps = 0;
  }
  return found;
}

/** Whether one of the roles is among those that a rule lets in. */
export function admits(allowed: readonly Role[], roles: readonly Role[]): boolean {
  return roles.some((role) => allowed.includes(role) || (role === 'admin' && allowed.includes('writer')));
}

/** The level that a push is judged at as a whole: the strictest of its refs. */
export function strictestLevel(levels: readonly AttestationLevel[]): AttestationLevel {
  return ATTESTATION_LEVELS.findLast((level) => levels.includes(level)) ?? 'off';
}

/** Upper bound of the work that finding the rules for refs takes; compare with `MATCHING_STEPS_MAX`. */
export function policySteps({ rules }: Policy, refs: readonly string[]): number {
  return patternSteps(
    rules.map(({ pattern }) => pattern),
    refs,
  );
}
