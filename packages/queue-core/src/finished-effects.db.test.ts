import { table } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { beforeEach, expect, test } from 'vitest';
import { claimSome, emptyQueue, fillQueue } from '../test/fill-queue.ts';
import { rowsTouched } from '../test/rows-touched.ts';
import { dispatcherFail } from './dispatcher-fail.ts';
import { finishClaims } from './finish-claims.ts';
import { finishedEffects, finishedStatement } from './finished-effects.ts';
import { maintainPartitions } from './maintain-partitions.ts';

const database = useTestDatabase();
beforeEach(() => emptyQueue(database.db));

async function finishOne(repoId: string, how: 'done' | 'dead'): Promise<bigint> {
  await fillQueue(database.db, repoId, 1);
  const [claim] = await claimSome(database.db, repoId, 1);
  if (how === 'dead') {
    await dispatcherFail(database.db, { claim: claim!, error: 'broken', retryInMs: 0, isPoison: true });
  } else {
    await finishClaims(database.db, [{ claim: claim!, state: 'done', outcome: 'pass' }]);
  }
  return claim!.effectId;
}

test('the newest first, of one repo or of all, in any state or in one', async () => {
  const one = await finishOne('a', 'done');
  const two = await finishOne('b', 'dead');
  const three = await finishOne('a', 'dead');
  const ids = async (request: Parameters<typeof finishedEffects>[1]) =>
    (await finishedEffects(database.db, request)).map((effect) => effect.effectId);
  expect(await ids({})).toEqual([three, two, one]);
  expect(await ids({ repoId: 'a' })).toEqual([three, one]);
  expect(await ids({ state: 'dead' })).toEqual([three, two]);
  expect(await ids({ state: 'done' })).toEqual([one]);
  expect(await ids({ repoId: 'b', state: 'dead' })).toEqual([two]);
  expect(await ids({ limit: 1 })).toEqual([three]);
  expect((await finishedEffects(database.db, { state: 'dead' }))[0]).toMatchObject({
    state: 'dead',
    outcome: null,
    reason: 'broken',
    attempts: 1,
  });
  await expect(finishedEffects(database.db, { state: 'gone' as 'dead' })).rejects.toThrow(
    /^state: expected done/,
  );
});

test('a page costs a page, whatever the history', async () => {
  const dead = await finishOne('a', 'dead');
  await maintainPartitions(database.db, { daysAhead: 1, retentionDays: 30 });
  await sql`insert into ${table('effect_history')}
    (effect_id, repo_id, name, payload, state, outcome, priority, attempts, max_attempts, enqueued_at, finished_at)
    select nextval('sluice.effect_id_seq'), 'r' || n % 10, '', '', 'done', 'pass', 0, 1, 3, now(), now()
      from generate_series(1, 50000) n`.execute(database.db);
  await sql`analyze ${table('effect_history')}`.execute(database.db);
  for (const request of [{}, { repoId: 'r1' }, { state: 'dead' }, { repoId: 'a', state: 'dead' }] as const) {
    const { rows } = await rowsTouched(database.db, finishedStatement({ ...request, limit: 10 }));
    expect(rows).toBeLessThan(100);
  }
  expect((await finishedEffects(database.db, { state: 'dead' }))[0]!.effectId).toBe(dead);
});
