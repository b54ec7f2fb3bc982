import { createDatabase, SCHEMA } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { beforeEach, expect, test } from 'vitest';
import { appendLog } from '../src/append-log.ts';
import { cancelEffects } from '../src/cancel-effects.ts';
import { dispatcherClaimsOf } from '../src/claims-of.ts';
import { dispatcherCompleteMany } from '../src/dispatcher-complete.ts';
import { dispatcherFail } from '../src/dispatcher-fail.ts';
import { dispatcherHandBack } from '../src/dispatcher-hand-back.ts';
import { effectId } from '../src/effect-id.ts';
import { enqueueEffects } from '../src/enqueue-effects.ts';
import { fairClaim } from '../src/fair-claim.ts';
import { findEffect } from '../src/find-effect.ts';
import { opRecords, recordOp } from '../src/record-op.ts';
import { openClaim } from '../src/open-claim.ts';
import { promoteDue } from '../src/promote-due.ts';
import { readLog } from '../src/read-log.ts';
import { dispatcherRequeueStale } from '../src/requeue-stale.ts';
import { rerunEffect } from '../src/rerun-effect.ts';
import { waitingEffects } from '../src/waiting-effects.ts';
import { emptyQueue } from './fill-queue.ts';

const database = useTestDatabase();
beforeEach(() => emptyQueue(database.db));

/** Beyond an int4, and where a JS number no longer tells neighbours apart. */
test.each([2_147_483_647n, 9_007_199_254_740_993n])(
  'every operation works with ids above %s',
  async (start) => {
    // Sequences hand out their values in blocks: a session of its own sees the new place.
    await using db = createDatabase({
      connectionString: database.url,
      applicationName: 'test',
      connectionsMax: 1,
    });
    await sql`select setval(${`${SCHEMA}.effect_id_seq`}::text::regclass, ${start}::bigint),
                   setval(${`${SCHEMA}.effect_claim_number_seq`}::text::regclass, ${start}::bigint)`.execute(
      db,
    );
    const enqueued = await enqueueEffects(
      db,
      Array.from({ length: 6 }, (_, n) => ({ repoId: 'a', payload: `${n}`, dedupKey: `${n}` })),
    );
    const ids = enqueued.map((one) => one.effectId);
    expect(ids).toEqual([1n, 2n, 3n, 4n, 5n, 6n].map((n) => start + n));

    const request = (want: number, since = {}) => ({
      claimedBy: 'w',
      turns: [{ repoId: 'a', want, ...since }],
      defaultCap: 10,
    });
    const { effects, findings } = await fairClaim(db, request(5));
    expect(effects.map((one) => one.effectId)).toEqual(ids.slice(0, 5));
    expect(effects.map((one) => one.claimNumber)).toEqual(ids.slice(0, 5));
    const [done, failed, handedBack, lost, fenced] = effects;
    const { lowestClaim, lowestWaiting } = findings[0]!;
    // A bound, and no lower than what came before the first.
    expect([start, start + 1n]).toContain(lowestClaim);
    expect((await dispatcherClaimsOf(db, 'w')).map((one) => one.claimNumber)).toEqual(ids.slice(0, 5));
    expect(await db.transaction().execute((trx) => openClaim(trx, fenced!))).toMatchObject({
      effectId: fenced!.effectId,
    });

    // A neighbour's id is another id.
    const neighbour = { ...done!, effectId: effectId(done!.effectId + 1n) };
    expect(await dispatcherCompleteMany(db, [{ claim: neighbour, outcome: 'pass' }])).toEqual([]);
    expect(
      await dispatcherCompleteMany(db, [
        { claim: done!, outcome: 'pass' },
        { claim: fenced!, outcome: 'fail' },
      ]),
    ).toEqual(expect.arrayContaining([done!.claimNumber, fenced!.claimNumber]));
    expect(await dispatcherFail(db, { claim: failed!, error: 'why', retryInMs: 0 })).toBe('scheduled');
    expect(await dispatcherHandBack(db, [handedBack!])).toEqual([handedBack!.claimNumber]);
    expect(await appendLog(db, lost!, [{ seq: 1, bytes: Buffer.from('x') }])).toBe('stored');
    expect(await readLog(db, { effectId: lost!.effectId })).toMatchObject([
      { claimNumber: lost!.claimNumber },
    ]);
    await sql`update ${sql.id(SCHEMA, 'effect_claim')} set claimed_at = now() - interval '1 hour'`.execute(
      db,
    );
    expect(await dispatcherRequeueStale(db, { olderThanMs: 1_000 })).toBe(1);
    expect((await promoteDue(db, { limit: 10 })).promoted).toEqual([
      { repoId: 'a', effectId: failed!.effectId },
    ]);

    const waiting = [failed!, handedBack!, lost!].map((one) => one.effectId);
    expect((await waitingEffects(db, { limit: 9, defaultCap: 9 })).map((one) => one.effectId)).toEqual([
      ...waiting,
      ids[5],
    ]);
    expect(await cancelEffects(db, { repoId: 'a', effectIds: [ids[5]!], reason: 'why' })).toEqual([ids[5]]);
    for (const id of ids) expect(await findEffect(db, id)).toMatchObject({ effectId: id });
    expect(await findEffect(db, effectId(start))).toBeUndefined();
    const again = await rerunEffect(db, { repoId: 'a', effectId: done!.effectId });
    expect(BigInt(again!)).toBe(start + 7n);
    const later = await fairClaim(
      db,
      request(9, {
        ...(lowestClaim === null ? {} : { sinceClaimNumber: lowestClaim }),
        ...(lowestWaiting === null ? {} : { sinceEffectId: effectId(start + 1n) }),
      }),
    );
    expect(later.effects.map((one) => one.effectId)).toEqual([...waiting, again]);
  },
);

test('the log of a repo goes on beyond what a JS number tells apart', async () => {
  const { db } = database;
  const oid = (n: number) => `${n}`.repeat(40);
  await db.insertInto('repo').values({ repo_id: 'a', op_seq: 9_007_199_254_740_992n }).execute();
  expect(await recordOp(db, { repoId: 'a', opOid: oid(1) })).toBe(9_007_199_254_740_993n);
  expect(await recordOp(db, { repoId: 'a', opOid: oid(2) })).toBe(9_007_199_254_740_994n);
  expect(await recordOp(db, { repoId: 'a', opOid: oid(1) })).toBe(9_007_199_254_740_993n);
  expect((await opRecords(db, { repoId: 'a' })).map(({ seq }) => seq)).toEqual([
    9_007_199_254_740_994n,
    9_007_199_254_740_993n,
  ]);
});
