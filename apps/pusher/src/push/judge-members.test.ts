import type { Member, Role } from '@sluice/effect-spec';
import { expect, test } from 'vitest';
import { UNGOVERNED, type Governance } from './governance.ts';
import { judgeMembers } from './judge-members.ts';

/** Whole keys that differ, as nobody has them. */
const [A, B, C] = ['A', 'B', 'C'].map(
  (letter) => `ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI${letter}yFMwMxW1tGZ0AVQ/3lYaT2zPLqXwAQqFjSxL4Kvlqn`,
) as [string, string, string];
const CUT_OFF = A.slice(0, -4);

type Members = Record<string, Member>;
const member = (role: Role, keys: string[], revoked = false): Member => ({ role, keys, revoked });
const having = (members: Members): Governance => ({
  ...UNGOVERNED,
  members: new Map(Object.entries(members)),
});
const judged = (before: Governance, pushed: Members): Record<string, string> =>
  Object.fromEntries(judgeMembers(before, new Map(Object.entries(pushed))));

const usual: Members = { ada: member('admin', [A]), bob: member('writer', [B]) };

test.each<[string, Members]>([
  ['nothing of members', {}],
  ['another member', { eve: member('writer', [C]) }],
  ['another key', { bob: member('writer', [B, C]) }],
  ['a key that goes from one to the other', { bob: member('writer', [C]), eve: member('writer', [B]) }],
  ['a member who is revoked', { bob: member('writer', [B], true) }],
  ['the only admin in place of another', { ada: member('writer', [A]), bob: member('admin', [B]) }],
  ['keys that shall count for nobody, whoever has them', { lost: member('writer', [B, CUT_OFF], true) }],
])('a push of %s is taken', (_, pushed) => {
  expect(judged(having(usual), pushed)).toEqual({});
});

test.each<[string, Members, Record<string, string>]>([
  [
    'a key that is cut off',
    { eve: member('writer', [C, CUT_OFF]) },
    { eve: 'got one that is cut off or was changed: key 2 of 2 in member.yaml. Take its line' },
  ],
  [
    'a key of another member',
    { eve: member('writer', [A]) },
    { eve: 'got that of ada, and nobody could tell who signed: key 1 of 1 in member.yaml. Take another key' },
  ],
  [
    'a key of somebody who is revoked with it',
    { bob: member('writer', [B], true), bob2: member('writer', [B]) },
    { bob2: 'got that of bob, who was revoked, so that it counts for nobody any more: key 1 of 1' },
  ],
  [
    'two members with one key',
    { eve: member('writer', [C]), joe: member('writer', [C]), kim: member('admin', [CUT_OFF]) },
    { eve: 'got that of joe', joe: 'got that of eve', kim: 'cut off' },
  ],
  ['the only admin as a writer', { ada: member('writer', [A]) }, { ada: 'expected an admin with a key' }],
  [
    'the only admin revoked, with another member',
    { ada: member('admin', [A], true), eve: member('writer', [C]) },
    { ada: 'expected an admin with a key that counts', eve: 'expected an admin with a key that counts' },
  ],
  [
    "a revoked member with the only admin's key",
    { lost: member('writer', [A], true) },
    { lost: 'expected an admin with a key that counts' },
  ],
])('a push of %s is refused, with a reason for each', (_, pushed, reasons) => {
  const expected = Object.entries(reasons).map(([name, reason]) => [
    `refs/meta/members/${name}`,
    expect.stringContaining(reason),
  ]);
  expect(judged(having(usual), pushed)).toEqual(Object.fromEntries(expected));
});

test('who was revoked stays so, whoever it is and whatever else changes', () => {
  const before = having({ ...usual, gone: member('writer', [C], true) });
  const stays = { 'refs/meta/members/gone': expect.stringContaining('expected revoked: true, as before') };
  expect(judged(before, { gone: member('writer', [C]) })).toEqual(stays);
  expect(judged(before, { gone: member('admin', [CUT_OFF]), eve: member('writer', [B]) })).toEqual({
    ...stays,
    'refs/meta/members/eve': expect.stringContaining('got that of bob'),
  });
  expect(judged(before, { gone: member('worker', [CUT_OFF], true) })).toEqual({});
  // Nor where an admin of the server repairs what no member can.
  expect(judged(having({ gone: member('admin', [A], true) }), { gone: member('admin', [A]) })).toEqual(stays);
});

test('first members need an admin who can sign', () => {
  const reason = expect.stringContaining('expected an admin among the first members');
  for (const before of [UNGOVERNED, { ...UNGOVERNED, problem: 'refs/meta/config: gone' }]) {
    expect(judged(before, usual)).toEqual({});
    expect(judged(before, { bob: usual['bob']! })).toEqual({ 'refs/meta/members/bob': reason });
    expect(judged(before, { ada: member('admin', [CUT_OFF]), bob: usual['bob']! })).toEqual({
      'refs/meta/members/ada': expect.stringContaining('cut off'),
    });
  }
});

const CANNOT_SIGN: Members = { ada: member('admin', [CUT_OFF]), bob: member('writer', [B, CUT_OFF]) };
const SHARED: Members = { ada: member('admin', [A, B]), bob: member('writer', [B]) };

test.each<[string, Members, Members]>([
  ['of two members with one key, one gets another role', SHARED, { bob: member('worker', [B]) }],
  ['of two members with one key, one gets another key', SHARED, { ada: member('admin', [A, B, C]) }],
  ['of two members with one key, one loses it', SHARED, { ada: member('admin', [A]) }],
  [
    'beside a key that is cut off, a member gets another',
    CANNOT_SIGN,
    { bob: member('writer', [B, CUT_OFF, C]) },
  ],
  [
    'where no admin can sign, a member gets another role',
    CANNOT_SIGN,
    { bob: member('worker', [B, CUT_OFF]) },
  ],
  ['where no admin can sign, an admin gets a key', CANNOT_SIGN, { ada: member('admin', [CUT_OFF, A]) }],
  ['where no admin can sign, another admin comes', CANNOT_SIGN, { eve: member('admin', [C]) }],
  ['where there is no admin, a writer comes', { bob: member('writer', [B]) }, { eve: member('writer', [C]) }],
])('what was there before is no reason to refuse: %s', (_, before, pushed) => {
  expect(judged(having(before), pushed)).toEqual({});
});

test('what cannot be read is no reason either', () => {
  const broken = { ...having({}), problem: 'refs/meta/members/bob: gone' };
  expect(judged(broken, CANNOT_SIGN)).toEqual({});
});
