import { expect, test } from 'vitest';
import { hasAdmin, hasSigningAdmin, ownerOfKey, ownersOfKeys } from './key-owner.ts';
import type { Member, Role } from './parse-member.ts';

const member = (role: Role, keys: string[], revoked = false): Member => ({ role, keys, revoked });

test('a key is that of its first owner, unless one of its owners lost it', () => {
  const members = new Map([
    ['ada', member('admin', ['a', 'shared', 'lost'])],
    ['bob', member('writer', ['b', 'shared', 'lost'])],
    ['gone', member('writer', ['lost'], true)],
  ]);
  const nameOf = (key: string): string | undefined => ownerOfKey(members, key)?.name;
  expect(['a', 'b', 'shared', 'lost', 'other'].map(nameOf)).toEqual(['ada', 'bob', 'ada', 'gone', undefined]);
  const owners = ownersOfKeys(members, new Set(['a', 'shared', 'lost', 'other']));
  const names = [...owners].map(([key, owners]) => [key, owners.map(({ name }) => name)]);
  expect(Object.fromEntries(names)).toEqual({
    a: ['ada'],
    shared: ['ada', 'bob'],
    lost: ['gone', 'ada', 'bob'],
  });
});

test('an admin who was revoked is none', () => {
  expect(hasAdmin([])).toBe(false);
  expect(hasAdmin([member('admin', ['a'], true), member('writer', ['b'])])).toBe(false);
  expect(hasAdmin([member('admin', ['a'], true), member('admin', ['b'])])).toBe(true);
});

const KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJyFMwMxW1tGZ0AVQ/3lYaT2zPLqXwAQqFjSxL4Kvlqn';
const OTHER = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINyFMwMxW1tGZ0AVQ/3lYaT2zPLqXwAQqFjSxL4Kvlqn';
const CUT_OFF = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJyFMwMx';

test.each<[string, Record<string, Member>, boolean]>([
  ['nobody', {}, false],
  ['an admin', { ada: member('admin', [KEY]) }, true],
  ['a writer', { bob: member('writer', [KEY]) }, false],
  ['an admin who was revoked', { ada: member('admin', [KEY], true) }, false],
  ['an admin whose only key is cut off', { ada: member('admin', [CUT_OFF]) }, false],
  ['an admin of whose keys one is cut off', { ada: member('admin', [CUT_OFF, KEY]) }, true],
  [
    'an admin whose only key is that of somebody who was revoked',
    { ada: member('admin', [KEY]), eve: member('writer', [KEY], true) },
    false,
  ],
  [
    'an admin whose only key counts as the one of a writer',
    { abe: member('writer', [KEY]), ada: member('admin', [KEY]) },
    false,
  ],
  [
    'an admin with a key of their own besides a shared one',
    { abe: member('writer', [KEY]), ada: member('admin', [KEY, OTHER]) },
    true,
  ],
])('whether an admin can sign, of %s', (_, members, expected) => {
  expect(hasSigningAdmin(new Map(Object.entries(members)))).toBe(expected);
});
