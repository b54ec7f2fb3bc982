import { expect, test } from 'vitest';
import { composeGoverned, governingFile, isGoverning, parseGoverning } from './governing.ts';
import { createPolicy, ruleInForce } from './push-policy.ts';

const KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJyFMwMxW1tGZ0AVQ/3lYaT2zPLqXwAQqFjSxL4Kvlqn';
const MEMBER = `role: writer\nkeys: [${KEY}]\n`;

test.each([
  ['refs/meta/config', true],
  ['refs/meta/members/ada', true],
  ['refs/meta/config/x', false],
  ['refs/meta/members', false],
  ['refs/meta/memberships/ada', false],
  ['refs/meta/effects/ci', false],
])('%s governs pushes: %s', (ref, expected) => {
  expect(isGoverning(ref)).toBe(expected);
});

test('refs say together who the members are and what the policy is', () => {
  const says = (ref: string, text: string) => [ref, parseGoverning(governingFile(ref), text)] as const;
  const ada = says('refs/meta/members/ada', MEMBER);
  const config = says('refs/meta/config', 'rules: { refs/heads/main: { force: false } }\n');
  const member = { role: 'writer', revoked: false, keys: [KEY] };
  expect(composeGoverned([])).toEqual({ members: new Map(), policy: createPolicy([]) });
  expect(composeGoverned([ada])).toEqual({ members: new Map([['ada', member]]), policy: createPolicy([]) });
  const both = composeGoverned([config, ada]);
  if ('problem' in both) throw new Error(both.problem);
  expect(ruleInForce(both.policy, 'refs/heads/main').force.value).toBe(false);
  expect([...both.members.keys()]).toEqual(['ada']);
});

test('one that cannot be understood is named, with the first problem and how many more there are', () => {
  const bad = parseGoverning('member.yaml', 'role: boss\nkeys: []\n');
  const problem = 'member.yaml:1:7: expected admin, writer, worker, got "boss"; and 1 more';
  expect(bad).toEqual({ problem });
  expect(composeGoverned([['refs/meta/members/bob', bad]])).toEqual({
    problem: `refs/meta/members/bob: ${problem}`,
  });
});
