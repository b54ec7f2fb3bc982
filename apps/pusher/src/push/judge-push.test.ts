import { parsePolicy, type Member, type Policy, type Role } from '@sluice/effect-spec';
import type { RefEdit } from '@sluice/ref-store';
import { expect, test } from 'vitest';
import { UNGOVERNED, type Governance } from './governance.ts';
import { judgePush, type Attempt } from './judge-push.ts';

const oid = 'a'.repeat(40);
const other = 'b'.repeat(40);

function policy(rules: Record<string, object>): Policy {
  const parsed = parsePolicy(JSON.stringify({ rules }));
  if ('problems' in parsed) throw new Error(JSON.stringify(parsed.problems));
  return parsed.policy;
}

function member(role: Role, keys: string[], revoked = false): Member {
  return { role, keys, revoked };
}

function governance(members: Record<string, Member>, rules: Record<string, object> = {}): Governance {
  return { members: new Map(Object.entries(members)), policy: policy(rules), problem: null };
}

const open = (rules: Record<string, object>): Governance => ({ ...UNGOVERNED, policy: policy(rules) });
const create = (...names: string[]): RefEdit[] => names.map((name) => ({ name, expect: 'absent', to: oid }));
const move = (...names: string[]): RefEdit[] => names.map((name) => ({ name, expect: other, to: oid }));
const remove = (...names: string[]): RefEdit[] => names.map((name) => ({ name, expect: oid, to: null }));

const usual = governance({ ada: member('admin', ['A']), bob: member('writer', ['B', 'B2']) });
const EVERYTHING: readonly Role[] = ['admin', 'writer', 'worker'];
const attempt: Attempt = {
  edits: create('refs/heads/a'),
  roles: EVERYTHING,
  key: null,
  isServerAdmin: false,
  isUser: false,
};

/** The reasons of a refusal by ref, or the one reason for all; what else came out as it is. */
async function judged(by: Governance, what: Partial<Attempt>): Promise<unknown> {
  const judgement = await judgePush(by, { ...attempt, ...what });
  if (!('refused' in judgement)) return judgement.signer;
  const { refused } = judgement;
  return typeof refused === 'string' ? { all: refused } : Object.fromEntries(refused);
}

test('a signature counts for what its member may do; without one, what need not be signed passes', async () => {
  expect(await judged(usual, {})).toBeNull();
  expect(await judged(usual, { key: 'B2' })).toBe('bob');
  expect(await judged(usual, { key: 'C' })).toEqual({
    all: expect.stringContaining('nobody who is a member'),
  });
  const definition = { edits: create('refs/heads/a', 'refs/meta/effects/ci') };
  const unsigned =
    'expected a signed push: git push --signed; refs/meta/effects/** has attestation: required';
  expect(await judged(usual, definition)).toEqual({ 'refs/meta/effects/ci': unsigned });
  expect(await judged(usual, { ...definition, key: 'A' })).toBe('ada');
  expect(await judged(usual, { ...definition, key: 'B' })).toEqual({
    'refs/meta/effects/ci': 'expected the signature of an admin, got that of bob, a writer',
  });
  // Credentials do not stand in for a signature.
  expect(await judged(usual, { ...definition, isServerAdmin: true })).toEqual({
    'refs/meta/effects/ci': unsigned,
  });
});

test('token and signature both have to be enough, for each ref', async () => {
  const definition = { edits: create('refs/meta/effects/ci', 'refs/heads/a') };
  expect(await judged(usual, { ...definition, key: 'A', roles: ['writer'] })).toEqual({
    'refs/meta/effects/ci': 'expected a token with admin: refs/meta/effects/** is for admins',
  });
  const mixed = governance(
    { ada: member('admin', ['A']), bot: member('worker', ['W']) },
    { 'refs/builds/**': { roles: ['admin', 'worker'] }, 'refs/frozen/*': { roles: [] } },
  );
  const build = { edits: create('refs/builds/1') };
  expect(await judged(mixed, { ...build, key: 'W', roles: ['worker'] })).toBe('bot');
  expect(await judged(mixed, { ...build, key: 'W', roles: ['writer'] })).toEqual({
    'refs/builds/1': 'expected a token with admin or worker: refs/builds/** is for admins and workers',
  });
  expect(await judged(mixed, { edits: create('refs/heads/a'), key: 'W' })).toEqual({
    'refs/heads/a': 'expected the signature of a writer, got that of bot, a worker',
  });
  expect(await judged(mixed, { edits: create('refs/frozen/a', 'refs/heads/a'), key: 'A' })).toEqual({
    'refs/frozen/a': 'nobody may push here: refs/frozen/* has no roles',
  });
});

test('without members a policy decides by the token alone, and a signature is nobody’s business', async () => {
  const repository = open({ 'refs/heads/release/*': { roles: ['admin'], attestation: 'required' } });
  expect(await judged(repository, { edits: create('refs/heads/release/1') })).toBeNull();
  expect(await judged(repository, { edits: create('refs/heads/release/1'), roles: ['writer'] })).toEqual({
    'refs/heads/release/1': 'expected a token with admin: refs/heads/release/* is for admins',
  });
  expect(await judged(UNGOVERNED, { roles: ['writer'] })).toBeNull();
  expect(await judged(UNGOVERNED, { roles: [] })).toEqual({
    'refs/heads/a': 'expected a token with write: refs/** is for writers',
  });
});

test('the strictest level of all refs counts, and each ref that has it says so', async () => {
  const notes = governance(
    { ada: member('admin', ['A']) },
    { 'refs/notes/*': { attestation: 'off' }, 'refs/heads/**': { attestation: 'required' } },
  );
  expect(await judged(notes, { edits: create('refs/notes/a'), key: 'unknown' })).toBeNull();
  expect(await judged(notes, { edits: create('refs/notes/a', 'refs/heads/a', 'refs/tags/a') })).toEqual({
    'refs/heads/a': expect.stringContaining('expected a signed push'),
  });
  expect(await judged(notes, { edits: create('refs/notes/a', 'refs/tags/a'), key: 'unknown' })).toEqual({
    all: expect.stringContaining('nobody who is a member'),
  });
  expect(await judged(notes, { edits: create('refs/notes/a', 'refs/tags/a'), key: 'A' })).toBe('ada');
});

test('deletions and moves are judged by the rule of their ref', async () => {
  const guarded = open({
    'refs/heads/main': { force: false, delete: false },
    'refs/tags/*': { force: false },
  });
  expect(await judged(guarded, { edits: remove('refs/heads/main', 'refs/heads/a', 'refs/tags/v1') })).toEqual(
    {
      'refs/heads/main': 'may not be deleted: refs/heads/main has delete: false',
    },
  );
  expect(await judged(guarded, { edits: move('refs/tags/v1') })).toEqual({
    'refs/tags/v1': 'expected a fast-forward: refs/tags/* has force: false',
  });
  expect(await judged(guarded, { edits: create('refs/tags/v1', 'refs/heads/main') })).toBeNull();
  const unmoved: RefEdit = { name: 'refs/tags/v1', expect: oid, to: oid };
  expect(await judged(guarded, { edits: [unmoved] })).toBeNull();
  expect(await judgePush(guarded, { ...attempt, edits: move('refs/heads/main', 'refs/heads/a') })).toEqual({
    signer: null,
    forwardOnly: new Map([['refs/heads/main', 'expected a fast-forward: refs/heads/main has force: false']]),
  });
});

test('a push that would take long to judge is refused at once', async () => {
  const slow = open(
    Object.fromEntries(
      Array.from({ length: 99 }, (_, n) => [`refs/${'*a'.repeat(140)}${n}`, { force: false }]),
    ),
  );
  const names = Array.from({ length: 20_000 }, (_, n) => `refs/heads/${'a'.repeat(200)}${n}`);
  expect(await judged(slow, { edits: create(...names) })).toEqual({
    all: expect.stringContaining('expected a push that can be judged in about a second, got 20000 refs'),
  });
  const many = Array.from({ length: 1001 }, (_, n) => `refs/heads/${n}`);
  expect(await judged(open({ 'refs/heads/*': { force: false } }), { edits: move(...many) })).toEqual({
    all: expect.stringContaining(
      'expected at most 1000 refs that may only move forward in one push, got 1001',
    ),
  });
});

test('a key that one of its owners lost is lost for all', async () => {
  const shared = governance({ ada: member('admin', ['A', 'S']), zoe: member('writer', ['S'], true) });
  expect(await judged(shared, { key: 'S' })).toEqual({
    all: expect.stringContaining('zoe, who was revoked'),
  });
});

test('where no admin can sign, an admin of the server repairs it, and everybody else goes on as before', async () => {
  const key = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJyFMwMxW1tGZ0AVQ/3lYaT2zPLqXwAQqFjSxL4Kvlqn';
  const of = (adminsKey: string): Governance =>
    governance({ ada: member('admin', [adminsKey]), bob: member('writer', ['B']) });
  const [able, unable] = [of(key), of(key.slice(0, -4))];
  const repair = { edits: [...move('refs/meta/members/ada'), ...remove('refs/meta/config')] };
  const unsigned = expect.stringContaining('expected a signed push');
  const refused = { 'refs/meta/members/ada': unsigned, 'refs/meta/config': unsigned };
  expect(await judged(unable, { ...repair, isServerAdmin: true })).toBeNull();
  expect(await judged(able, { ...repair, isServerAdmin: true })).toEqual(refused);
  expect(await judged(unable, repair)).toEqual(refused);
  const more = { edits: create('refs/meta/effects/ci'), isServerAdmin: true };
  expect(await judged(unable, more)).toEqual({ 'refs/meta/effects/ci': unsigned });
  expect(await judged(unable, {})).toBeNull();
  expect(await judged(unable, { key: 'B' })).toBe('bob');
});

test.each([
  ['a member that cannot be read', { ...usual, problem: 'refs/meta/members/eve: gone' }],
  ['a policy that cannot be read, and no members', { ...UNGOVERNED, problem: 'refs/meta/config: gone' }],
  ['no members any more', governance({})],
  ['no admin', governance({ bob: member('writer', ['B']) })],
  ['a revoked admin', governance({ ada: member('admin', ['A'], true), bob: member('writer', ['B']) })],
  [
    'no admin, and a policy that forbids to force',
    governance({}, { 'refs/meta/config': { force: false, delete: false } }),
  ],
])('%s: nobody comes in but an admin of the server, to repair it', async (_, broken) => {
  for (const key of [null, 'A', 'B'])
    expect(await judged(broken, { key })).toEqual({ all: expect.stringContaining('nobody can push here') });
  const repair = { edits: [...move('refs/meta/members/eve'), ...remove('refs/meta/config')] };
  expect(await judged(broken, repair)).toHaveProperty('all');
  expect(await judgePush(broken, { ...attempt, ...repair, isServerAdmin: true })).toEqual({
    signer: null,
    forwardOnly: new Map(),
  });
  expect(await judged(broken, { isServerAdmin: true })).toHaveProperty('all');
});
