import { dispatcherHandBack, fairClaim, promoteDue, type Claim } from '@sluice/queue-core/dispatcher';
import { useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { systemClock, type Clock } from '../src/clock.ts';
import { Completer } from '../src/completer.ts';
import { enqueue } from './dispatchers.ts';
import { scriptedDatabase } from './scripted-database.ts';
import { until } from './until.ts';

const database = useTestDatabase();

test('what ends in the moment in which a sender ends is sent as well', async () => {
  const { db } = database;
  const later = 12;
  await enqueue(db, ['a'], 2 * later);
  const turnsOfA = [{ repoId: 'a', want: 2 * later }];
  const { effects: claims } = await fairClaim(db, { claimedBy: 'w', turns: turnsOfA, defaultCap: 100 });
  for (let turns = 0; turns < later; turns += 1) {
    const sleepers: (() => void)[] = [];
    const clock: Clock = {
      now: () => 0,
      sleep: (ms) => (ms > 100 ? new Promise(() => {}) : new Promise((wake) => sleepers.push(wake))),
    };
    let closed = 0;
    const completer = new Completer({
      db,
      clock,
      emit: () => {},
      onClosed: () => (closed += 1),
      mayOverlap: () => true,
    });
    completer.add(claims[2 * turns]!, { kind: 'complete', outcome: 'pass' });
    sleepers.shift()!();
    await until(
      'the first is closed, and its sender waits for more',
      () => closed === 1 && sleepers.length === 1,
    );
    sleepers.shift()!();
    for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
    completer.add(claims[2 * turns + 1]!, { kind: 'complete', outcome: 'pass' });
    await until(`the second is closed, ${turns} turns later`, () => {
      for (const wake of sleepers.splice(0)) wake();
      return closed === 2;
    });
  }
  expect(await db.selectFrom('effect_claim').select('effect_id').execute()).toEqual([]);
});

test('a failure whose answer was lost is reported as what it was', async () => {
  const { db } = database;
  await enqueue(db, ['b'], 3, { maxAttempts: 2 });
  await enqueue(db, ['b'], 1, { maxAttempts: 1 });
  const claimOfB = async () =>
    (await fairClaim(db, { claimedBy: 'w', turns: [{ repoId: 'b', want: 9 }], defaultCap: 100 })).effects;
  const [retried, again, taken, last] = await claimOfB();
  await dispatcherHandBack(db, [taken!]);
  let isAnswerLost = true;
  const through = scriptedDatabase(async (statement) => {
    const { rows } = await db.executeQuery(statement);
    if (!isAnswerLost) return rows;
    isAnswerLost = false;
    expect((await promoteDue(db, { limit: 9 })).promoted).toMatchObject([{ effectId: again!.effectId }]);
    const anew = (await claimOfB()).map(({ effectId, attempt }) => [effectId, attempt]);
    expect(anew).toEqual([
      [again!.effectId, 2],
      [taken!.effectId, 1],
    ]);
    throw new Error('Connection terminated unexpectedly');
  });
  const ends = new Map<bigint, string>();
  const completer = new Completer({
    db: through,
    clock: systemClock,
    emit: () => {},
    onClosed: ({ claimNumber }, how) => ends.set(claimNumber, how),
    mayOverlap: () => true,
  });
  const fail = (claim: Claim, retryInMs: number) =>
    completer.add(claim, { kind: 'fail', error: 'why', isPoison: false, retryInMs });
  fail(retried!, 3_600_000);
  fail(again!, 0);
  fail(taken!, 0);
  fail(last!, 0);
  await completer.drain();
  expect([retried, again, taken, last].map((claim) => ends.get(claim!.claimNumber))).toEqual([
    'scheduled',
    'scheduled',
    'stale',
    'dead',
  ]);
});
