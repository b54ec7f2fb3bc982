import { ruleInForce, type Policy } from '@sluice/effect-spec';
import { table } from '../terminal.ts';

/** All rules, those that decide first in front. */
export function describeRules({ rules }: Policy): string {
  const rows = rules.map(({ pattern, roles, force, delete: deletion, attestation }) =>
    [pattern, roles, force, deletion, attestation].map(shownClause),
  );
  return table(['PATTERN', 'ROLES', 'FORCE', 'DELETE', 'ATTESTATION'], rows);
}

/** What is in force for a ref, and by which rules. */
export function describeRule(policy: Policy, ref: string): string {
  const rows = Object.entries(ruleInForce(policy, ref)).map(([clause, { value, pattern }]) => [
    clause,
    shownClause(value),
    pattern,
  ]);
  return table(['WHAT', 'IN FORCE', 'BY THE RULE FOR'], rows);
}

/** What the rules for one pattern say, before and after a change, where that is not the same. */
export function describeChange(pattern: string, before: Policy, after: Policy): string {
  const rows = CLAUSES.map((clause) => [
    clause,
    shownClause(said(before, pattern, clause)),
    shownClause(said(after, pattern, clause)),
  ]);
  return table(
    [pattern, 'BEFORE', 'NOW'],
    rows.filter(([, was, is]) => was !== is),
  );
}

const CLAUSES = ['roles', 'force', 'delete', 'attestation'] as const;
type Clause = string | boolean | readonly string[] | undefined;

/** Of two rules with the same pattern, the repository's stands first. */
function said({ rules }: Policy, pattern: string, clause: (typeof CLAUSES)[number]): Clause {
  return rules.find((rule) => rule.pattern === pattern && rule[clause] !== undefined)?.[clause];
}

function shownClause(value: Clause): string {
  if (value === undefined) return '-';
  if (typeof value === 'string' || typeof value === 'boolean') return String(value);
  return value.length === 0 ? 'nobody' : value.join(', ');
}
