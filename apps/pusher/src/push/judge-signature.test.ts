import type { Member, Policy } from '@sluice/effect-spec';
import { expect, test } from 'vitest';
import type { Governance } from './governance.ts';
import { judgeSignature } from './judge-signature.ts';

function member(role: Member['role'], keys: string[], revoked = false): Member {
  return { role, keys, revoked };
}

function governance(members: Record<string, Member>, policy: Policy | null = null): Governance {
  return { members: new Map(Object.entries(members)), policy, problem: null };
}

const usual = governance({ ada: member('admin', ['A']), bob: member('writer', ['B', 'B2']) });
const attempt = { refs: ['refs/heads/a'], key: null, isServerAdmin: false };

test('a signature counts for what its member may do; without one, what need not be signed passes', () => {
  expect(judgeSignature(usual, attempt)).toEqual({ signer: null });
  expect(judgeSignature(usual, { ...attempt, key: 'B2' })).toEqual({ signer: 'bob' });
  expect(judgeSignature(usual, { ...attempt, key: 'C' })).toEqual({
    refused: expect.stringContaining('nobody who is a member'),
  });
  const definition = { ...attempt, refs: ['refs/heads/a', 'refs/meta/effects/ci'] };
  expect(judgeSignature(usual, definition)).toEqual({ refused: expect.stringContaining('a signed push') });
  expect(judgeSignature(usual, { ...definition, key: 'A' })).toEqual({ signer: 'ada' });
  expect(judgeSignature(usual, { ...definition, key: 'B' })).toEqual({
    refused: new Map([
      ['refs/meta/effects/ci', expect.stringContaining('of an admin, got that of bob, a writer')],
    ]),
  });
  // Credentials do not stand in for a signature.
  expect(judgeSignature(usual, { ...definition, isServerAdmin: true })).toHaveProperty('refused');
});

test('a key that one of its owners lost is lost for all', () => {
  const shared = governance({ ada: member('admin', ['A', 'S']), zoe: member('writer', ['S'], true) });
  expect(judgeSignature(shared, { ...attempt, key: 'S' })).toEqual({
    refused: expect.stringContaining('zoe, who was revoked'),
  });
});

test.each([
  ['a member that cannot be read', { ...usual, problem: 'refs/meta/members/eve: gone' }],
  ['no members', governance({})],
  ['no admin', governance({ bob: member('writer', ['B']) })],
  ['a revoked admin', governance({ ada: member('admin', ['A'], true), bob: member('writer', ['B']) })],
])('%s: nobody comes in but an admin of the server, to repair it', (_, broken) => {
  for (const key of [null, 'A', 'B'])
    expect(judgeSignature(broken, { ...attempt, key })).toEqual({
      refused: expect.stringContaining('nobody can push here'),
    });
  const repair = { ...attempt, refs: ['refs/meta/members/eve', 'refs/meta/config'] };
  expect(judgeSignature(broken, repair)).toHaveProperty('refused');
  expect(judgeSignature(broken, { ...repair, isServerAdmin: true })).toEqual({ signer: null });
  expect(judgeSignature(broken, { ...attempt, isServerAdmin: true })).toHaveProperty('refused');
});
