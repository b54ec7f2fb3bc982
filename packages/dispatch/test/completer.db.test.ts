import { fairClaim } from '@sluice/queue-core/dispatcher';
import { useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import type { Clock } from '../src/clock.ts';
import { Completer } from '../src/completer.ts';
import { enqueue } from './dispatchers.ts';
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
