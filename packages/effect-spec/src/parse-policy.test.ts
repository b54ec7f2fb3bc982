import { expect, test } from 'vitest';
import { parsePolicy } from './parse-policy.ts';
import { ruleInForce } from './push-policy.ts';

test('a rule decides what it says, and nothing else', () => {
  const parsed = parsePolicy(
    'rules:\n  refs/heads/main: { force: false, delete: false }\n  refs/heads/*:\n    roles: [admin, worker]\n    attestation: off\n',
  );
  if ('problems' in parsed) throw new Error(JSON.stringify(parsed.problems));
  expect(ruleInForce(parsed.policy, 'refs/heads/main')).toEqual({
    roles: { value: ['admin', 'worker'], pattern: 'refs/heads/*' },
    force: { value: false, pattern: 'refs/heads/main' },
    delete: { value: false, pattern: 'refs/heads/main' },
    attestation: { value: 'off', pattern: 'refs/heads/*' },
  });
});

test.each(['rules: {}', 'rules:\n  refs/heads/*: {}\n', 'rules: { refs/meta/config: { roles: [writer] } }'])(
  '%j is a policy',
  (text) => {
    expect(parsePolicy(text)).toHaveProperty('policy');
  },
);

const rule = (pattern: string, clauses: string): string => `rules:\n  ${pattern}:\n    ${clauses}\n`;

test.each([
  ['', 1, 1, 'expected a mapping with "rules", got nothing'],
  ['[refs/heads/*]\n', 1, 1, 'expected a mapping with "rules", got a list'],
  ['attestation:\n  refs/heads/*: required\n', 1, 1, 'expected attestation in a rule, as in {rules: '],
  ['rulez: {}\n', 1, 1, 'expected rules, got the unknown key "rulez"'],
  ['{}', 1, 1, 'expected "rules" with ref patterns, got no such key'],
  ['rules: all\n', 1, 8, 'expected a mapping of ref patterns to rules, got "all"'],
  ['rules:\n  heads/*: {}\n', 2, 3, 'expected a full ref pattern such as refs/heads/*, got "heads/*"'],
  ['rules:\n  "!refs/heads/*": {}\n', 2, 3, 'expected a full ref pattern'],
  ['rules:\n  refs/heads/: {}\n', 2, 3, 'expected a pattern that a ref name can match'],
  ['rules:\n  refs/heads/***: {}\n', 2, 3, 'expected a pattern that a ref name can match'],
  [`rules:\n  refs/${'x'.repeat(300)}: {}\n`, 2, 3, 'expected a ref pattern of at most 300 bytes, got 305'],
  ['rules:\n  refs/a: {}\n  refs/a: {}\n', 3, 3, 'expected each key once, got "refs/a" again'],
  ['rules:\n  refs/heads/*: required\n', 2, 17, 'expected a mapping with roles, force, delete, attestation'],
  [
    'rules:\n  refs/heads/*:\n',
    2,
    3,
    'expected a mapping with roles, force, delete, attestation, got nothing',
  ],
  [rule('refs/heads/*', 'role: [admin]'), 3, 5, 'expected roles, got the unknown key "role"'],
  [rule('refs/heads/*', 'roles: admin'), 3, 12, 'expected a list of some of admin, writer, worker'],
  [rule('refs/heads/*', 'roles: [admin, owner]'), 3, 20, 'expected admin, writer, worker, got "owner"'],
  [rule('refs/heads/*', 'force: never'), 3, 12, 'expected true or false, got "never"'],
  [rule('refs/heads/*', 'delete: no'), 3, 13, 'expected true or false, got "no"'],
  [rule('refs/heads/*', 'attestation: false'), 3, 18, 'expected off, optional, required, got the boolean'],
  [rule('refs/heads/*', 'attestation:'), 3, 5, 'expected off, optional, required, got nothing'],
  [rule('refs/meta/results/*', 'roles: [admin]'), 2, 3, 'expected no rule for refs/meta/results/'],
  [rule('refs/meta/config', 'roles: [worker]'), 3, 12, 'expected admin among the roles'],
  [rule('refs/meta/members/*', 'roles: []'), 3, 12, 'expected admin among the roles'],
  [rule('refs/meta/members/bob', 'delete: true'), 3, 13, 'expected false, got true: members are revoked'],
])('%j is refused at line %i, column %i', (text, line, column, message) => {
  expect(parsePolicy(text)).toMatchObject({
    problems: [{ line, column, message: expect.stringContaining(message) }],
  });
});

test('more rules than anybody reads are refused', () => {
  const many = Array.from({ length: 101 }, (_, n) => `  refs/x/${n}: {}\n`).join('');
  expect(parsePolicy(`rules:\n${many}`)).toMatchObject({
    problems: [{ line: 2, column: 3, message: 'expected at most 100 rules, got 101' }],
  });
});
