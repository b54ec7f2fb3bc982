import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parsePolicy } from './parse-policy.ts';
import {
  admits,
  createPolicy,
  ruleInForce,
  rulesInForce,
  strictestLevel,
  type Policy,
  type Rule,
} from './push-policy.ts';
import { comparePatterns } from './pattern-precedence.ts';
import { matchesPattern } from './ref-pattern.ts';

const everywhere = createPolicy([]);

test.each([
  ['refs/heads/main', ['writer'], true, true, 'optional'],
  ['refs/tags/v1', ['writer'], true, true, 'optional'],
  ['refs/meta', ['admin'], true, true, 'required'],
  ['refs/metadata', ['writer'], true, true, 'optional'],
  ['refs/meta/x/y', ['admin'], true, true, 'required'],
  ['refs/meta/effects', ['admin'], true, true, 'required'],
  ['refs/meta/effects/ci', ['admin'], true, true, 'required'],
  ['refs/meta/members/ada', ['admin'], true, false, 'required'],
  ['refs/meta/config', ['admin'], true, true, 'required'],
  ['refs/meta/config/x', ['admin'], true, true, 'required'],
  ['refs/meta/results/ci/x', ['worker'], true, true, 'off'],
])('without a word of the repository, %s is for %j', (ref, roles, force, deletion, attestation) => {
  const { roles: who, ...rest } = ruleInForce(everywhere, ref);
  expect([who.value, rest.force.value, rest.delete.value, rest.attestation.value]).toEqual([
    roles,
    force,
    deletion,
    attestation,
  ]);
});

test('each clause is decided by itself, and of one pattern twice the repository decides', () => {
  const policy = createPolicy([
    { pattern: 'refs/heads/**', attestation: 'required', roles: ['admin'] },
    { pattern: 'refs/heads/wip/*', attestation: 'off' },
    { pattern: 'refs/**', force: false },
  ]);
  expect(ruleInForce(policy, 'refs/heads/wip/x')).toEqual({
    roles: { value: ['admin'], pattern: 'refs/heads/**' },
    force: { value: false, pattern: 'refs/**' },
    delete: { value: true, pattern: 'refs/**' },
    attestation: { value: 'off', pattern: 'refs/heads/wip/*' },
  });
  expect(() => ruleInForce(policy, 'main')).toThrow('expected a full ref name, got "main"');
});

test('the rules for many refs are found in turns, each of few refs where patterns are made to be slow', () => {
  const turnsOf = (policy: Policy, refs: readonly string[]): number => {
    const work = rulesInForce(policy, refs);
    for (let turns = 1; ; turns += 1) {
      const { done, value } = work.next();
      if (!done) continue;
      expect(value).toEqual(refs.map((ref) => ruleInForce(policy, ref)));
      return turns;
    }
  };
  const refs = Array.from({ length: 50 }, (_, n) => `refs/heads/${'a'.repeat(1000)}${n}`);
  expect(turnsOf(everywhere, refs)).toBe(1);
  const slow = createPolicy(
    Array.from({ length: 100 }, (_, n) => ({ pattern: `refs/heads/${'*a'.repeat(140)}*${n}`, force: false })),
  );
  expect(turnsOf(slow, refs)).toBe(51);
});

test('an admin is a writer as well, and a worker is nothing else', () => {
  expect(admits(['writer'], ['admin'])).toBe(true);
  expect(admits(['writer'], ['worker'])).toBe(false);
  expect(admits(['worker'], ['admin', 'writer'])).toBe(false);
  expect(admits(['admin'], ['writer'])).toBe(false);
  expect(admits(['admin', 'worker'], ['writer', 'worker'])).toBe(true);
  expect(admits([], ['admin', 'writer', 'worker'])).toBe(false);
  expect(admits(['writer'], [])).toBe(false);
});

test('a push is judged at the strictest level of its refs', () => {
  expect(strictestLevel(['off', 'required', 'optional'])).toBe('required');
  expect(strictestLevel(['optional', 'off'])).toBe('optional');
  expect(strictestLevel(['off', 'off'])).toBe('off');
});

const text = fc.constantFrom('heads', 'meta', 'effects', 'members', 'config', 'main', 'a', 'ci');
const segment = fc.oneof(text, fc.constantFrom('*', '**', 'm*', '*s', 'c**i'));
const pattern = fc.array(segment, { minLength: 1, maxLength: 4 }).map((parts) => `refs/${parts.join('/')}`);
const ref = fc.array(text, { minLength: 1, maxLength: 4 }).map((parts) => `refs/${parts.join('/')}`);
const rules = fc.uniqueArray(
  fc.record(
    {
      pattern,
      roles: fc.subarray(['admin', 'writer', 'worker'] as const),
      force: fc.boolean(),
      delete: fc.boolean(),
      attestation: fc.constantFrom('off', 'optional', 'required' as const),
    },
    { requiredKeys: ['pattern'] },
  ),
  { selector: (rule) => rule.pattern, maxLength: 8 },
) as fc.Arbitrary<Rule[]>;

test('whatever the order of its rules, a policy decides alike, by the first pattern that matches', () => {
  const shuffled = rules.chain((list) =>
    fc.tuple(fc.constant(list), fc.shuffledSubarray(list, { minLength: list.length })),
  );
  fc.assert(
    fc.property(shuffled, ref, ([list, again], name) => {
      const decided = ruleInForce(createPolicy(list), name);
      expect(ruleInForce(createPolicy(again), name)).toEqual(decided);
      for (const key of ['roles', 'force', 'delete', 'attestation'] as const) {
        const { pattern: decisive, value } = decided[key];
        expect(matchesPattern(decisive, name)).toBe(true);
        const rivals = list.filter((rule) => rule[key] !== undefined && matchesPattern(rule.pattern, name));
        for (const rival of rivals) {
          if (rival.pattern === decisive) expect(rival[key]).toBe(value);
          else expect(comparePatterns(decisive, rival.pattern)).toBeLessThan(0);
        }
      }
    }),
    { numRuns: 1000 },
  );
});

test('only a rule that names a governing namespace decides about it', () => {
  const namespaces = [
    ['refs/meta/effects/', 'refs/meta/effects/ci'],
    ['refs/meta/members/', 'refs/meta/members/a'],
    ['refs/meta/config', 'refs/meta/config'],
    ['refs/meta/', 'refs/meta/a'],
  ] as const;
  fc.assert(
    fc.property(rules, (list) => {
      for (const [namespace, name] of namespaces) {
        const others = list.filter((rule) => !rule.pattern.startsWith(namespace));
        const { roles, attestation } = ruleInForce(createPolicy(others), name);
        expect([roles.value, attestation.value]).toEqual([['admin'], 'required']);
      }
    }),
    { numRuns: 1000 },
  );
});

test('no policy that can be read keeps admins from the policy and the members', () => {
  fc.assert(
    fc.property(rules, (list) => {
      const yaml = { rules: Object.fromEntries(list.map(({ pattern: key, ...clauses }) => [key, clauses])) };
      const parsed = parsePolicy(JSON.stringify(yaml));
      fc.pre('policy' in parsed);
      for (const name of ['refs/meta/config', 'refs/meta/members/a', 'refs/meta/members/ci']) {
        expect(admits(ruleInForce(parsed.policy, name).roles.value, ['admin'])).toBe(true);
        expect(name.includes('members') && ruleInForce(parsed.policy, name).delete.value).toBe(false);
      }
    }),
    { numRuns: 1000 },
  );
});
