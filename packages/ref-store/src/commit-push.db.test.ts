import type { DB } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql, type Kysely, type KyselyPlugin } from 'kysely';
import { beforeAll, describe, expect, test } from 'vitest';
import { newKey, oid, push } from '../test/push-fixture.ts';
import { commitPush } from './commit-push.ts';
import { lockRepo } from './lock-repo.ts';
import { readRefs } from './read-refs.ts';
import { readRepo } from './read-repo.ts';
import type { RefEdit } from './ref-edit.ts';
import type { ServerKey } from './server-key.ts';

const database = useTestDatabase();
let key: ServerKey;
beforeAll(async () => {
  key = await newKey();
});

const set = (name: string, to: string, expected: RefEdit['expect'] = 'any'): RefEdit => ({
  name,
  expect: expected,
  to,
});
const remove = (name: string, expected: RefEdit['expect'] = 'any'): RefEdit => ({
  name,
  expect: expected,
  to: null,
});

test('a push writes refs, reflog, op record and its objects together', async () => {
  const { db } = database;
  const repoId = 'write/all';
  const first = await push(db, {
    repoId,
    key,
    edits: [set('refs/heads/b', oid(1), 'absent'), set('refs/tags/a', oid(2))],
  });
  expect(first).toEqual({
    status: 'committed',
    pushId: expect.stringMatching(/^[0-9a-f]{40}$/),
    seq: 1n,
    refsVersion: 1n,
    applied: [
      { name: 'refs/heads/b', oldOid: null, newOid: oid(1) },
      { name: 'refs/tags/a', oldOid: null, newOid: oid(2) },
    ],
  });
  const second = await push(db, {
    repoId,
    key,
    edits: [set('refs/heads/b', oid(3), oid(1)), remove('refs/tags/a', oid(2))],
  });
  expect(second).toMatchObject({ status: 'committed', seq: 2n, refsVersion: 2n });
  expect(await readRefs(db, repoId)).toEqual([{ name: 'refs/heads/b', oid: oid(3) }]);
  const [firstId, secondId] = [first, second].map((outcome) =>
    outcome.status === 'committed' ? outcome.pushId : '',
  );
  const log = await db
    .selectFrom('reflog')
    .select(['push_id', 'name', 'old_oid', 'new_oid'])
    .where('repo_id', '=', repoId)
    .orderBy('reflog_id')
    .execute();
  expect(log).toEqual([
    { push_id: firstId, name: 'refs/heads/b', old_oid: null, new_oid: oid(1) },
    { push_id: firstId, name: 'refs/tags/a', old_oid: null, new_oid: oid(2) },
    { push_id: secondId, name: 'refs/heads/b', old_oid: oid(1), new_oid: oid(3) },
    { push_id: secondId, name: 'refs/tags/a', old_oid: oid(2), new_oid: null },
  ]);
  const records = await db
    .selectFrom('op_record')
    .select(['push_id', 'seq', 'parent', 'signer'])
    .where('repo_id', '=', repoId)
    .orderBy('seq')
    .execute();
  expect(records).toEqual([
    { push_id: firstId, seq: 1n, parent: null, signer: 'alice' },
    { push_id: secondId, seq: 2n, parent: firstId, signer: 'alice' },
  ]);
  expect(await readRepo(db, repoId)).toEqual({
    objectFormat: 'sha1',
    headRef: 'refs/heads/b',
    refsVersion: 2n,
    opSeq: 2n,
    opTip: secondId,
  });
  const objects = await db.selectFrom('small_object').select('kind').where('repo_id', '=', repoId).execute();
  expect(objects.map((object) => object.kind).sort()).toEqual([
    'blob',
    'blob',
    'commit',
    'commit',
    'tree',
    'tree',
  ]);
});

describe('all or nothing', () => {
  test('one stale ref refuses all, each with its reason, and nothing is written', async () => {
    const { db } = database;
    const repoId = 'refuse/stale';
    await push(db, { repoId, key, edits: [set('refs/heads/main', oid(1))] });
    const outcome = await push(db, {
      repoId,
      key,
      edits: [
        set('refs/tags/v1', oid(2), 'absent'),
        set('refs/heads/main', oid(3), oid(2)),
        remove('refs/heads/gone', oid(4)),
      ],
    });
    expect(outcome).toEqual({
      status: 'refused',
      refusals: [
        {
          name: 'refs/tags/v1',
          code: 'not_applied',
          reason: 'not applied: another ref of this push was refused',
        },
        {
          name: 'refs/heads/main',
          code: 'stale',
          reason: 'stale: expected 222222222222, but it is 111111111111; fetch and try again',
        },
        {
          name: 'refs/heads/gone',
          code: 'stale',
          reason: 'stale: expected 444444444444, but it does not exist; fetch and try again',
        },
      ],
    });
    expect(await readRefs(db, repoId)).toEqual([{ name: 'refs/heads/main', oid: oid(1) }]);
    expect(await readRepo(db, repoId)).toMatchObject({ refsVersion: 1n, opSeq: 1n });
  });

  test.each<[string, RefEdit[], (string | RegExp)[]]>([
    [
      'an existing ref above',
      [set('refs/heads/a/b', oid(2))],
      ['conflicts with the existing ref refs/heads/a'],
    ],
    [
      'an existing ref below',
      [set('refs/heads/dir', oid(2))],
      ['conflicts with the existing ref refs/heads/dir/x'],
    ],
    [
      'one another',
      [set('refs/heads/n', oid(2)), set('refs/heads/n/m', oid(2))],
      [/n\/m in the same push/, /heads\/n in the same push/],
    ],
    [
      'one below that stays',
      [remove('refs/heads/dir/x'), set('refs/heads/dir', oid(2))],
      [
        'not applied: another ref of this push was refused',
        'conflicts with the existing ref refs/heads/dir/y',
      ],
    ],
    [
      'a bad name',
      [set('refs/heads/ok', oid(2)), set('refs/heads/../x', oid(2))],
      [/not applied/, 'bad name: contains ..'],
    ],
    [
      'the longest file name of a clone',
      [set(`refs/heads/${'x'.repeat(251)}`, oid(2)), remove(`refs/heads/${'y'.repeat(251)}`)],
      [/^bad name: expected at most 250 bytes between slashes, got 251/, /not applied/],
    ],
    [
      'a name twice',
      [set('refs/heads/ok', oid(2)), remove('refs/heads/ok')],
      ['named more than once in this push', 'named more than once in this push'],
    ],
  ])('names that conflict with %s are refused', async (what, edits, reasons) => {
    const { db } = database;
    const repoId = `refuse/${what.replaceAll(' ', '-')}`;
    await push(db, {
      repoId,
      key,
      edits: ['a', 'dir/x', 'dir/y', 'dir-', 'dir0'].map((name) => set(`refs/heads/${name}`, oid(1))),
    });
    const outcome = await push(db, { repoId, key, edits });
    expect(outcome).toMatchObject({ status: 'refused' });
    const got = outcome.status === 'refused' ? outcome.refusals : [];
    expect(got.map((refusal) => refusal.name)).toEqual(edits.map((edit) => edit.name));
    for (const [index, reason] of reasons.entries()) expect(got[index]!.reason).toMatch(reason);
    expect(await readRepo(db, repoId)).toMatchObject({ opSeq: 1n });
  });

  test('a directory may become a ref and a ref a directory in one push', async () => {
    const { db } = database;
    const repoId = 'swap/names';
    await push(db, {
      repoId,
      key,
      edits: [set('refs/heads/a/b', oid(1)), set('refs/heads/a/c', oid(1)), set('refs/heads/x', oid(1))],
    });
    const outcome = await push(db, {
      repoId,
      key,
      edits: [
        set('refs/heads/a', oid(2)),
        remove('refs/heads/a/b'),
        remove('refs/heads/a/c'),
        set('refs/heads/x/y', oid(2)),
        remove('refs/heads/x'),
      ],
    });
    expect(outcome).toMatchObject({ status: 'committed' });
    expect((await readRefs(db, repoId)).map((ref) => ref.name)).toEqual(['refs/heads/a', 'refs/heads/x/y']);
  });
});

test('edits that change nothing are dropped, and a push of only those leaves no record', async () => {
  const { db } = database;
  const repoId = 'unchanged/push';
  await push(db, { repoId, key, edits: [set('refs/heads/main', oid(1))] });
  const same = [
    set('refs/heads/main', oid(1), oid(1)),
    remove('refs/heads/none', 'absent'),
    remove('refs/heads/nor-this'),
  ];
  expect(await push(db, { repoId, key, edits: same })).toEqual({ status: 'unchanged' });
  expect(await push(db, { repoId, key, edits: [] })).toEqual({ status: 'unchanged' });
  expect(await readRepo(db, repoId)).toMatchObject({ refsVersion: 1n, opSeq: 1n });
  const outcome = await push(db, { repoId, key, edits: [...same, set('refs/tags/t', oid(2))] });
  expect(outcome).toMatchObject({ applied: [{ name: 'refs/tags/t', oldOid: null, newOid: oid(2) }] });
});

describe('HEAD', () => {
  test('is the first branch ever pushed, and stays that', async () => {
    const { db } = database;
    const repoId = 'head/first';
    await push(db, { repoId, key, edits: [set('refs/tags/t', oid(1))] });
    expect(await readRepo(db, repoId)).toMatchObject({ headRef: 'refs/heads/main' });
    await push(db, { repoId, key, edits: [set('refs/heads/trunk', oid(1))] });
    expect(await readRepo(db, repoId)).toMatchObject({ headRef: 'refs/heads/trunk' });
    await push(db, { repoId, key, edits: [set('refs/heads/main', oid(1)), remove('refs/heads/trunk')] });
    await push(db, { repoId, key, edits: [set('refs/heads/other', oid(1))] });
    expect(await readRepo(db, repoId)).toMatchObject({ headRef: 'refs/heads/trunk' });
  });

  test('prefers the branch it names already when several arrive at once', async () => {
    const { db } = database;
    await push(db, {
      repoId: 'head/several',
      key,
      edits: ['alpha', 'main', 'zeta'].map((name) => set(`refs/heads/${name}`, oid(1))),
    });
    expect(await readRepo(db, 'head/several')).toMatchObject({ headRef: 'refs/heads/main' });
  });
});

test('a certificate is accepted once per repository', async () => {
  const { db } = database;
  const certificate = Buffer.from('certificate version 0.1\n');
  const first = await push(db, {
    repoId: 'cert/a',
    key,
    certificate,
    edits: [set('refs/heads/main', oid(1))],
  });
  expect(first).toMatchObject({ status: 'committed' });
  const replay = await push(db, {
    repoId: 'cert/a',
    key,
    certificate,
    edits: [set('refs/heads/main', oid(2))],
  });
  expect(replay).toMatchObject({
    status: 'refused',
    refusals: [{ name: 'refs/heads/main', code: 'certificate' }],
  });
  expect(
    await push(db, { repoId: 'cert/b', key, certificate, edits: [set('refs/heads/main', oid(1))] }),
  ).toMatchObject({ status: 'committed' });
});

test('a certificate of 2 MiB is kept as an object; of a larger one only its name is', async () => {
  const { db } = database;
  const repoId = 'certificate/large';
  for (const [index, bytes] of [2_097_152, 2_097_153].entries()) {
    const certificate = Buffer.alloc(bytes);
    const edits = [set('refs/heads/main', oid(index + 1))];
    expect(await push(db, { repoId, key, edits, certificate })).toMatchObject({ status: 'committed' });
  }
  const named = await db
    .selectFrom('op_record')
    .leftJoin('small_object', (join) =>
      join
        .onRef('small_object.repo_id', '=', 'op_record.repo_id')
        .onRef('small_object.oid', '=', 'op_record.cert_oid'),
    )
    .select((eb) => sql<number | null>`length(${eb.ref('small_object.bytes')})`.as('bytes'))
    .where('op_record.repo_id', '=', repoId)
    .orderBy('op_record.seq')
    .execute();
  expect(named).toEqual([{ bytes: 2_097_152 }, { bytes: null }]);
});

test('10,000 edits take as many statements as one', async () => {
  const repoId = 'many/edits';
  const counter = countStatements(database.db);
  await push(counter.db, { repoId, key, edits: [set('refs/heads/main', oid(1))] });
  counter.reset();
  await push(counter.db, { repoId, key, edits: [set('refs/heads/main', oid(2))] });
  const forOne = counter.reset();
  const many = Array.from({ length: 10_000 }, (_, index) => `refs/tags/group-${index % 100}/v${index}`);
  const outcome = await push(counter.db, {
    repoId,
    key,
    edits: many.map((name) => set(name, oid(3), 'absent')),
  });
  expect(outcome).toMatchObject({ status: 'committed', seq: 3n });
  expect(counter.reset()).toBe(forOne);
  const collapsed = [
    ...many.map((name) => remove(name, oid(3))),
    ...Array.from({ length: 100 }, (_, index) => set(`refs/tags/group-${index}`, oid(4))),
  ];
  expect(await push(counter.db, { repoId, key, edits: collapsed })).toMatchObject({
    status: 'committed',
    seq: 4n,
  });
  expect(counter.reset()).toBe(forOne);
  expect(await readRefs(database.db, repoId)).toHaveLength(101);
}, 120_000);

describe('concurrent pushes', () => {
  test('to different branches of one repository both succeed', async () => {
    const { db } = database;
    const repoId = 'race/branches';
    const outcomes = await Promise.all(
      Array.from({ length: 6 }, (_, index) =>
        push(db, { repoId, key, edits: [set(`refs/heads/b${index}`, oid(1), 'absent')] }),
      ),
    );
    const seqs = outcomes.map((outcome) => (outcome.status === 'committed' ? outcome.seq : 0n));
    expect(new Set(seqs)).toEqual(new Set([1n, 2n, 3n, 4n, 5n, 6n]));
    expect(await readRefs(db, repoId)).toHaveLength(6);
  });

  test('to the same branch: exactly one wins, the others learn what it is now', async () => {
    const { db } = database;
    const repoId = 'race/branch';
    await push(db, { repoId, key, edits: [set('refs/heads/main', oid(1))] });
    const outcomes = await Promise.all(
      Array.from({ length: 6 }, (_, index) =>
        push(db, { repoId, key, edits: [set('refs/heads/main', oid(index + 2), oid(1))] }),
      ),
    );
    const won = outcomes.filter((outcome) => outcome.status === 'committed');
    expect(won).toHaveLength(1);
    const now = won[0]!.applied[0]!.newOid!;
    expect(await readRefs(db, repoId)).toEqual([{ name: 'refs/heads/main', oid: now }]);
    for (const outcome of outcomes) {
      if (outcome.status === 'refused') expect(outcome.refusals[0]!.reason).toContain(now.slice(0, 12));
    }
  });

  test('naming refs in opposite order neither deadlock nor both win', async () => {
    const { db } = database;
    const repoId = 'race/order';
    const names = ['refs/heads/a', 'refs/heads/b'];
    await push(db, { repoId, key, edits: names.map((name) => set(name, oid(1))) });
    for (let round = 1; round <= 8; round++) {
      const old = oid(round);
      const outcomes = await Promise.all([
        push(db, { repoId, key, edits: names.map((name) => set(name, oid(round + 1), old)) }),
        push(db, { repoId, key, edits: names.toReversed().map((name) => set(name, oid(round + 1), old)) }),
      ]);
      expect(outcomes.map((outcome) => outcome.status).sort()).toEqual(['committed', 'refused']);
    }
  });

  test('that create the repository at once agree on one', async () => {
    const { db } = database;
    const outcomes = await Promise.all(
      [1, 2, 3, 4].map((digit) =>
        push(db, { repoId: 'race/create', key, edits: [set('refs/heads/main', oid(digit), 'absent')] }),
      ),
    );
    expect(outcomes.filter((outcome) => outcome.status === 'committed')).toHaveLength(1);
  });
});

test('a transaction that is killed before it commits leaves nothing', async () => {
  const { db } = database;
  const repoId = 'killed/push';
  await push(db, { repoId, key, edits: [set('refs/heads/main', oid(1))] });
  const killed = db.transaction().execute(async (trx) => {
    const repo = await lockRepo(trx, { repoId });
    const outcome = await commitPush(trx, {
      repo: repo!,
      edits: [set('refs/heads/main', oid(2))],
      signer: null,
      key,
    });
    expect(outcome.status).toBe('committed');
    await sql`select pg_terminate_backend(pg_backend_pid())`.execute(trx);
  });
  await expect(killed).rejects.toThrow();
  expect(await readRefs(db, repoId)).toEqual([{ name: 'refs/heads/main', oid: oid(1) }]);
  expect(await readRepo(db, repoId)).toMatchObject({ refsVersion: 1n, opSeq: 1n });
  for (const name of ['op_record', 'reflog'] as const) {
    expect(await db.selectFrom(name).select('push_id').where('repo_id', '=', repoId).execute()).toHaveLength(
      1,
    );
  }
  expect(await push(db, { repoId, key, edits: [set('refs/heads/main', oid(2), oid(1))] })).toMatchObject({
    status: 'committed',
    seq: 2n,
  });
});

describe('mistakes of the caller', () => {
  test('a repository that does not exist is undefined unless it shall be created', async () => {
    await database.db.transaction().execute(async (trx) => {
      expect(await lockRepo(trx, { repoId: 'no/such' })).toBeUndefined();
      await expect(lockRepo(trx, { repoId: 'a b', create: { objectFormat: 'sha1' } })).rejects.toMatchObject({
        code: 'invalid_argument',
      });
    });
  });

  test.each(['0'.repeat(40), 'A'.repeat(40), 'a'.repeat(64), 'main', ''])(
    'object id %j is refused',
    async (to) => {
      const pushed = push(database.db, { repoId: 'bad/oid', key, edits: [set('refs/heads/main', to)] });
      await expect(pushed).rejects.toMatchObject({ code: 'invalid_argument', message: /sha1 object id/ });
    },
  );

  test('a lock from before an earlier push of the same transaction is refused', async () => {
    const { db } = database;
    const twice = db.transaction().execute(async (trx) => {
      const repo = await lockRepo(trx, { repoId: 'bad/lock', create: { objectFormat: 'sha1' } });
      await commitPush(trx, { repo: repo!, edits: [set('refs/heads/a', oid(1))], signer: null, key });
      await commitPush(trx, { repo: repo!, edits: [set('refs/heads/b', oid(1))], signer: null, key });
    });
    await expect(twice).rejects.toThrow();
    expect(await readRepo(db, 'bad/lock')).toBeUndefined();
  });
});

function countStatements(db: Kysely<DB>): { db: Kysely<DB>; reset(): number } {
  let count = 0;
  const plugin: KyselyPlugin = {
    transformQuery: ({ node }) => {
      count++;
      return node;
    },
    transformResult: ({ result }) => Promise.resolve(result),
  };
  return {
    db: db.withPlugin(plugin),
    reset: () => {
      const counted = count;
      count = 0;
      return counted;
    },
  };
}
