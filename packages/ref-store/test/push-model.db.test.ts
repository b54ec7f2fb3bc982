import {
  hashObject,
  readObjects,
  readRefs,
  readRepo,
  verifyOpRecord,
  type AppliedEdit,
  type RefEdit,
  type ServerKey,
} from '@sluice/ref-store';
import { useTestDatabase } from '@sluice/testkit';
import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { newKey, oid, push } from './push-fixture.ts';

const database = useTestDatabase();
let key: ServerKey;
beforeAll(async () => {
  key = await newKey();
});

/** Few names that are often directories of one another, or sort around '/' ('-' and '.' before it, '0' after). */
const NAMES = ['a', 'a/b', 'a/b/c', 'a/d', 'a-b', 'a0', 'a.b/c', 'A', 'A/b'].map(
  (name) => `refs/heads/${name}`,
);
const oids = fc.integer({ min: 1, max: 3 }).map((digit) => oid(digit));
const intents = fc.record({
  name: fc.constantFrom(...NAMES),
  expect: fc.oneof(
    { weight: 6, arbitrary: fc.constant('current') },
    { weight: 1, arbitrary: fc.constantFrom('any', 'absent') },
    { weight: 1, arbitrary: oids },
  ),
  to: fc.oneof({ weight: 3, arbitrary: oids }, { weight: 2, arbitrary: fc.constant(null) }),
});
const pushes = fc.array(
  fc.uniqueArray(intents, { selector: (edit) => edit.name, minLength: 1, maxLength: 5 }),
  { maxLength: 8 },
);

/** The rule, told another way: apply everything to a copy, then look at the whole of it. */
function model(refs: ReadonlyMap<string, string>, edits: readonly RefEdit[]) {
  const after = new Map(refs);
  for (const { name, to } of edits) {
    if (to === null) after.delete(name);
    else after.set(name, to);
  }
  const names = [...after.keys()];
  const inConflict = new Set(
    names.flatMap((name) => {
      const below = names.filter((other) => other.startsWith(`${name}/`));
      return below.length === 0 ? [] : [name, ...below];
    }),
  );
  const codes = edits.map(({ name, expect: wanted, to }) => {
    if (wanted !== 'any' && wanted !== (refs.get(name) ?? 'absent')) return 'stale';
    return to !== null && inConflict.has(name) ? 'conflict' : 'not_applied';
  });
  if (codes.some((code) => code !== 'not_applied')) return { status: 'refused' as const, codes, after: refs };
  const applied: AppliedEdit[] = edits
    .map(({ name, to }) => ({ name, oldOid: refs.get(name) ?? null, newOid: to }))
    .filter((edit) => edit.oldOid !== edit.newOid);
  return { status: applied.length === 0 ? ('unchanged' as const) : ('committed' as const), applied, after };
}

test('random pushes do what the model says, and the log tells how', async () => {
  const { db } = database;
  let run = 0;
  await fc.assert(
    fc.asyncProperty(pushes, async (plan) => {
      const repoId = `model/${++run}`;
      let refs: ReadonlyMap<string, string> = new Map();
      const log: { pushId: string; applied: AppliedEdit[] }[] = [];
      for (const wanted of plan) {
        const edits = wanted.map((edit) => ({
          ...edit,
          expect: edit.expect === 'current' ? (refs.get(edit.name) ?? 'absent') : edit.expect,
        }));
        const should = model(refs, edits);
        const outcome = await push(db, { repoId, key, edits });
        expect(outcome.status).toBe(should.status);
        if (outcome.status === 'refused')
          expect(outcome.refusals.map((refusal) => refusal.code)).toEqual(should.codes);
        if (outcome.status === 'committed') {
          expect(outcome.applied).toEqual(should.applied);
          log.push({ pushId: outcome.pushId, applied: outcome.applied });
          expect(outcome.seq).toBe(BigInt(log.length));
          expect(outcome.refsVersion).toBe(BigInt(log.length));
        }
        refs = should.after;
      }
      const stored = await readRefs(db, repoId);
      expect(new Map(stored.map((ref) => [ref.name, ref.oid]))).toEqual(refs);
      await checkLog(repoId, log);
    }),
    { numRuns: 40 },
  );
}, 120_000);

/** Every record is signed, names its predecessor, and lists the edits that the reflog holds. */
async function checkLog(repoId: string, log: { pushId: string; applied: AppliedEdit[] }[]): Promise<void> {
  const { db } = database;
  expect((await readRepo(db, repoId))?.opTip ?? null).toBe(log.at(-1)?.pushId ?? null);
  for (const [index, { pushId, applied }] of log.entries()) {
    const record = await db
      .selectFrom('op_record')
      .select(['body', 'parent', 'seq'])
      .where('push_id', '=', pushId)
      .executeTakeFirstOrThrow();
    const check = await verifyOpRecord({ pushId, body: record.body!, trustedKeys: [key.publicKey] });
    const parent = log[index - 1]?.pushId ?? null;
    expect(check).toMatchObject({ status: 'valid', parent, repoId, seq: BigInt(index + 1), signer: 'alice' });
    expect(record).toMatchObject({ parent, seq: BigInt(index + 1) });
    const edits = applied
      .map((edit) => `${edit.oldOid ?? oid(0)} ${edit.newOid ?? oid(0)} ${edit.name}\n`)
      .sort((a, b) => (a.slice(82) < b.slice(82) ? -1 : 1))
      .join('');
    const blob = hashObject('sha1', 'blob', Buffer.from(edits));
    const objects = await readObjects(db, {
      repoId,
      oids: [pushId, blob, check.status === 'valid' ? check.tree : ''],
    });
    expect(objects.size).toBe(3);
    expect(objects.get(pushId)?.bytes).toEqual(record.body);
    const reflog = await db
      .selectFrom('reflog')
      .select(['name', 'old_oid', 'new_oid'])
      .where('push_id', '=', pushId)
      .orderBy('reflog_id')
      .execute();
    expect(reflog.map((row) => ({ name: row.name, oldOid: row.old_oid, newOid: row.new_oid }))).toEqual(
      applied,
    );
  }
}
