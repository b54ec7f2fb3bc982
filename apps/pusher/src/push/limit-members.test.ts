import type { RefEdit, RefRow } from '@sluice/ref-store';
import { expect, test } from 'vitest';
import { MEMBERS_BYTES_MAX, MEMBERS_MAX } from './governance.ts';
import { limitMembers } from './limit-members.ts';

const nameOf = (n: number): string => `refs/meta/members/m${n}`;
const members = (count: number): RefRow[] =>
  Array.from({ length: count }, (_, n) => ({ name: nameOf(n), oid: 'a'.repeat(40) }));
const set = (name: string): RefEdit => ({ name, expect: 'any', to: 'b'.repeat(40) });

/** The reasons, where a file that was pushed has so many bytes, and one that was there has a hundred. */
async function limited(before: readonly RefRow[], edits: readonly RefEdit[], bytes = 100): Promise<unknown> {
  const bytesOf = (refs: readonly RefRow[]): Promise<number> =>
    Promise.resolve(refs.reduce((sum, { oid }) => sum + (oid.startsWith('b') ? bytes : 100), 0));
  return Object.fromEntries(await limitMembers(before, edits, bytesOf));
}

test('one member more than there may be is refused, and those that are there change', async () => {
  const full = members(MEMBERS_MAX);
  expect(await limited(full, [set(nameOf(7)), set('refs/heads/a')])).toEqual({});
  expect(await limited(full, [set(nameOf(7)), set(nameOf(MEMBERS_MAX))])).toEqual({
    [nameOf(MEMBERS_MAX)]:
      'expected at most 10000 members in a repository, got 10001 with this push; give its keys to a member who is there, who may have 50',
  });
  // However it came to that.
  expect(await limited(members(MEMBERS_MAX + 1), [set(nameOf(7))])).toEqual({});
});

test('more bytes than all may have are refused, unless there were more before', async () => {
  expect(await limited(members(1), [set(nameOf(1))], MEMBERS_BYTES_MAX - 100)).toEqual({});
  expect(await limited(members(1), [set(nameOf(1))], MEMBERS_BYTES_MAX - 99)).toEqual({
    [nameOf(1)]:
      'expected at most 8388608 bytes in all files of members together, got 8388609 with this push; take comments out of them',
  });
  const many = members(MEMBERS_MAX).map(({ name, oid }) => ({ name, oid: oid.replaceAll('a', 'b') }));
  const less = { name: nameOf(0), expect: 'any', to: 'a'.repeat(40) } as const;
  expect(await limited(many, [less], 1000)).toEqual({});
  expect(await limited(many, [less, set(nameOf(1))], 1000)).toEqual({});
});
