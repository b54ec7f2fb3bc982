import { setImmediate } from 'node:timers/promises';
import type { Claim } from '@sluice/queue-core/dispatcher';
import { expect, test } from 'vitest';
import { scriptedDatabase } from '../test/scripted-database.ts';
import type { Clock } from './clock.ts';
import { Completer } from './completer.ts';
import type { Settlement } from './settlement.ts';

/** A completer whose statements are answered, and whose sleeps end, when the test says so. */
function setUp() {
  const sleepers: { ms: number; wake: () => void }[] = [];
  const clock: Clock = {
    now: () => 0,
    sleep: (ms, signal) =>
      new Promise((wake) => {
        sleepers.push({ ms, wake });
        signal?.addEventListener('abort', () => wake());
      }),
  };
  const statements: { claims: bigint[]; answer: () => void }[] = [];
  const db = scriptedDatabase(async ({ parameters }) => {
    const claims = parameters[1] as bigint[];
    const { promise, resolve } = Promise.withResolvers<void>();
    statements.push({ claims, answer: resolve });
    await promise;
    return [{ numbers: claims.join(' ') }];
  });
  const closed: bigint[] = [];
  let mayOverlap = true;
  const completer = new Completer({
    db,
    clock,
    emit: () => {},
    onClosed: ({ claimNumber }) => closed.push(claimNumber),
    mayOverlap: () => mayOverlap,
  });
  let added = 0;
  const add = (count: number, settlement: Settlement): void => {
    for (let n = 0; n < count; n += 1) completer.add(claim(++added), settlement);
  };
  return {
    statements,
    closed,
    complete: (count: number) => add(count, { kind: 'complete', outcome: 'pass' }),
    fail: (count: number) => add(count, { kind: 'fail', error: 'why', isPoison: false, retryInMs: 0 }),
    /** Ends the sleeps of up to so many milliseconds, and lets everything happen that follows. */
    pass: async (ms: number) => {
      await setImmediate();
      const awake = sleepers.filter((sleeper) => sleeper.ms <= ms);
      sleepers.splice(0, Infinity, ...sleepers.filter((sleeper) => sleeper.ms > ms));
      for (const { wake } of awake) wake();
      await setImmediate();
    },
    answer: async (nth: number) => {
      statements[nth]!.answer();
      await setImmediate();
    },
    forbidOverlap: () => {
      mayOverlap = false;
    },
  };
}

function claim(number: number): Claim {
  const effectId = BigInt(number) as Claim['effectId'];
  return { effectId, repoId: 'a', claimNumber: BigInt(number), attempt: 1, claimant: 'w' };
}

const GATHER_MS = 2;
const BACKOFF_MS = 2_000;
const BOUND_MS = 15_000;

test('two statements that are never answered leave a third to be sent', async () => {
  const { complete, pass, answer, statements, closed } = setUp();
  complete(1_000);
  await pass(GATHER_MS);
  expect(statements).toHaveLength(2);
  await pass(BOUND_MS);
  await pass(BACKOFF_MS);
  expect(statements).toHaveLength(3);
  await answer(2);
  await pass(GATHER_MS);
  await answer(3);
  expect(closed).toHaveLength(1_000);
});

test('the second sender sends full batches only, and ends when fewer are left', async () => {
  const { complete, pass, answer, statements, closed } = setUp();
  complete(1_000);
  await pass(GATHER_MS);
  await answer(1);
  complete(499);
  await pass(GATHER_MS);
  expect(statements).toHaveLength(2);
  complete(1);
  await pass(GATHER_MS);
  expect(statements.map(({ claims }) => claims.length)).toEqual([500, 500, 500]);
  complete(1);
  await answer(2);
  await pass(GATHER_MS);
  expect(statements).toHaveLength(3);
  await answer(0);
  await pass(GATHER_MS);
  await answer(3);
  expect(closed).toHaveLength(1_501);
});

test('the second sender ends when it is no longer worth while', async () => {
  const { complete, pass, answer, statements, closed, forbidOverlap } = setUp();
  complete(2_000);
  await pass(GATHER_MS);
  await answer(1);
  expect(statements).toHaveLength(3);
  forbidOverlap();
  await answer(2);
  expect(statements).toHaveLength(3);
  await answer(0);
  await answer(3);
  expect(closed).toHaveLength(2_000);
});

test('what is added in the moment in which both senders find too little is sent', async () => {
  const { complete, pass, answer, statements, closed } = setUp();
  complete(1_000);
  await pass(GATHER_MS);
  statements[0]!.answer();
  await answer(1);
  complete(1);
  await pass(GATHER_MS);
  await pass(GATHER_MS);
  await answer(2);
  expect(closed).toHaveLength(1_001);
});

test('many failures are one statement, and keep no completion waiting for longer', async () => {
  const { complete, fail, pass, answer, statements, closed } = setUp();
  complete(1);
  fail(500);
  await pass(GATHER_MS);
  for (let nth = 0; nth < 3; nth += 1) {
    await answer(nth);
    await pass(GATHER_MS);
  }
  expect(statements.map(({ claims }) => claims.length)).toEqual([1, 499, 1]);
  expect(closed).toHaveLength(501);
});
