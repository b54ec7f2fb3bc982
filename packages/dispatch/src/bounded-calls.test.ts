import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { BoundedCalls } from './bounded-calls.ts';
import { systemClock } from './clock.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

test('given-up calls that are still under way keep further ones from beginning', async () => {
  const calls = new BoundedCalls(systemClock);
  const unanswered: PromiseWithResolvers<void>[] = [];
  const hang = (): Promise<void> => {
    const answer = Promise.withResolvers<void>();
    unanswered.push(answer);
    return answer.promise;
  };
  for (let call = 1; call <= 5; call += 1)
    await expect(calls.run(1, 'a call', hang)).rejects.toThrow('timeout expired: a call');
  expect(unanswered).toHaveLength(2);
  unanswered[0]!.resolve();
  // The three that never began do not begin now: nobody waits for them.
  expect(await calls.run(30_000, 'a call', () => Promise.resolve('answered'))).toBe('answered');
  expect(unanswered).toHaveLength(2);
});

test('where a user makes two at once, two that never answer leave room for a third', async () => {
  const calls = new BoundedCalls(systemClock, 3);
  const hang = () => new Promise<void>(() => {});
  const lost = [calls.run(1, 'a call', hang), calls.run(1, 'a call', hang)];
  for (const call of lost) await expect(call).rejects.toThrow('timeout expired: a call');
  expect(await calls.run(30_000, 'a call', () => Promise.resolve('answered'))).toBe('answered');
});

test('what is given up before it began is not kept: output for a table that stays locked would fill the memory', async () => {
  const calls = new BoundedCalls(systemClock);
  const hang = () => new Promise<void>(() => {});
  for (let call = 1; call <= 2; call += 1) await expect(calls.run(1, 'a call', hang)).rejects.toThrow();
  const sent: WeakRef<Uint8Array>[] = [];
  const send = async (): Promise<void> => {
    const bytes = new Uint8Array(1024);
    sent.push(new WeakRef(bytes));
    await calls.run(1, 'a call', () => Promise.resolve(bytes.length));
  };
  for (let call = 1; call <= 100; call += 1) await expect(send()).rejects.toThrow('timeout expired: a call');
  // A weak reference holds what it was made for until the turn of the event loop ends.
  await setImmediate();
  collectGarbage();
  // The references are counted, not the bytes: those are freed by a thread of V8's, some time after a collection.
  expect(sent.filter((bytes) => bytes.deref() !== undefined).length).toBeLessThan(10);
});

test('a call that fails makes room for the next', async () => {
  const calls = new BoundedCalls(systemClock);
  const fail = () => Promise.reject(new Error('no'));
  for (let call = 1; call <= 5; call += 1)
    await expect(calls.run(30_000, 'a call', fail)).rejects.toThrow('no');
});
