import { isScalar, isSeq, type Node } from 'yaml';
import { RESULT_PREFIX } from './effect-name.ts';
import { MEMBER_PREFIX, ROLES, type Role } from './parse-member.ts';
import {
  admits,
  ATTESTATION_LEVELS,
  CONFIG_REF,
  createPolicy,
  type AttestationLevel,
  type Policy,
  type Rule,
} from './push-policy.ts';
import { readFlag, readList, readMapping, type Field } from './read-fields.ts';
import { describe, quote, readYaml, type Findings, type Problem } from './read-yaml.ts';
import { strayInPattern } from './ref-pattern.ts';

export type ParsedPolicy = { readonly policy: Policy } | { readonly problems: readonly Problem[] };

const RULES_MAX = 100;
const PATTERN_BYTES_MAX = 300;
const CLAUSES = ['roles', 'force', 'delete', 'attestation'] as const;

/**
 * Reads the text of a `policy.yaml`. Never throws: whatever is wrong comes back as problems with line and column, and
 * so does a rule that could never count or that would keep admins from changing the policy again.
 *
 * ```yaml
 * rules:
 *   refs/heads/main: { force: false, delete: false, attestation: required }
 *   refs/heads/release/*: { roles: [admin] }
 * ```
 */
export function parsePolicy(source: string | Uint8Array): ParsedPolicy {
  const { root, findings } = readYaml(source);
  const rules = findings.problems.length > 0 ? undefined : readRules(root, findings);
  const { problems } = findings;
  return rules === undefined || problems.length > 0 ? { problems } : { policy: createPolicy(rules) };
}

function readRules(root: Node | null, findings: Findings): Rule[] | undefined {
  const what = 'a mapping with "rules"';
  if (root === null) {
    findings.add(0, `expected ${what}, got nothing`);
    return undefined;
  }
  const fields = readMapping({ value: root, place: root }, what, 'any', findings);
  if (fields === undefined) return undefined;
  for (const [name, { key }] of fields) {
    if (name === 'rules') continue;
    const clause = CLAUSES.find((known) => known === name);
    const problem =
      clause === undefined
        ? `expected rules, got the unknown key ${quote(name)}`
        : `expected ${clause} in a rule, as in {rules: {refs/heads/**: {${clause}: …}}}, got it beside the rules`;
    findings.add(key, problem);
  }
  const rules = fields.get('rules');
  if (rules === undefined) {
    if (fields.size === 0) findings.add(root, 'expected "rules" with ref patterns, got no such key');
    return undefined;
  }
  const patterns = readMapping(rules, 'a mapping of ref patterns to rules', 'any', findings);
  if (patterns === undefined) return undefined;
  if (patterns.size > RULES_MAX) {
    findings.add(rules.place, `expected at most ${RULES_MAX} rules, got ${patterns.size}`);
    return undefined;
  }
  return [...patterns].map(([pattern, field]) => readRule(pattern, field, findings));
}

function readRule(pattern: string, field: Field, findings: Findings): Rule {
  const problem = patternProblem(pattern);
  if (problem !== undefined) findings.add(field.key, problem);
  const fields = readMapping(field, `a mapping with ${CLAUSES.join(', ')}`, CLAUSES, findings);
  const [roles, force, deletion, attestation] = CLAUSES.map((name) => fields?.get(name));
  const rule: Rule = {
    pattern,
    roles: roles && readRoles(roles, findings),
    force: force && readFlag(force, findings),
    delete: deletion && readFlag(deletion, findings),
    attestation: attestation && readLevel(attestation, findings),
  };
  if (roles !== undefined && rule.roles !== undefined && !leavesAdmins(pattern, rule.roles)) {
    findings.add(
      roles.place,
      `expected admin among the roles for ${quote(pattern)}: else nobody could take this policy back`,
    );
  }
  if (deletion !== undefined && rule.delete === true && pattern.startsWith(MEMBER_PREFIX)) {
    findings.add(deletion.place, 'expected false, got true: members are revoked and never deleted');
  }
  return rule;
}

function patternProblem(pattern: string): string | undefined {
  const got = `got ${quote(pattern)}`;
  if (!pattern.startsWith('refs/')) return `expected a full ref pattern such as refs/heads/*, ${got}`;
  if (Buffer.byteLength(pattern) > PATTERN_BYTES_MAX) {
    return `expected a ref pattern of at most ${PATTERN_BYTES_MAX} bytes, got ${Buffer.byteLength(pattern)}`;
  }
  const stray = strayInPattern(pattern) ?? /\*{3,}/.exec(pattern)?.[0];
  if (stray !== undefined) return `expected a pattern that a ref name can match, ${got} with ${quote(stray)}`;
  if (`${pattern}/`.startsWith(RESULT_PREFIX)) {
    return `expected no rule for ${RESULT_PREFIX}, ${got}: a result is let in by the claim that it is pushed for`;
  }
  return undefined;
}

function readRoles(field: Field, findings: Findings): Role[] | undefined {
  const items = readList(field, `a list of some of ${ROLES.join(', ')}`, findings) ?? [];
  const roles: Role[] = [];
  for (const item of items) {
    const role = ROLES.find((known) => isScalar(item) && item.value === known);
    if (role === undefined) findings.add(item, `expected ${ROLES.join(', ')}, got ${describe(item)}`);
    else roles.push(role);
  }
  return isSeq(field.value) && roles.length === items.length ? roles : undefined;
}

function readLevel(field: Field, findings: Findings): AttestationLevel | undefined {
  const level = ATTESTATION_LEVELS.find((known) => isScalar(field.value) && field.value.value === known);
  if (level === undefined) {
    findings.add(field.place, `expected ${ATTESTATION_LEVELS.join(', ')}, got ${describe(field.value)}`);
  }
  return level;
}

/** Nothing but a rule of their own decides who may push the policy and the members, so it is enough to look at those. */
function leavesAdmins(pattern: string, roles: readonly Role[]): boolean {
  const isGoverning = pattern === CONFIG_REF || pattern.startsWith(MEMBER_PREFIX);
  return !isGoverning || admits(roles, ['admin']);
}
