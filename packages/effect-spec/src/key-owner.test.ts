import { expect, test } from 'vitest';
import { hasAdmin, ownerOfKey } from './key-owner.ts';
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
});

test('an admin who was revoked is none', () => {
  expect(hasAdmin([])).toBe(false);
  expect(hasAdmin([member('admin', ['a'], true), member('writer', ['b'])])).toBe(false);
  expect(hasAdmin([member('admin', ['a'], true), member('admin', ['b'])])).toBe(true);
});
