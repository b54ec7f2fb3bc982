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

test('what is given up before it began is not kept: output for a table that stays locked would fill the memory', async () => {
  const calls = new BoundedCalls(systemClock);
  const MEGABYTES = 100;
  const heldMegabytes = (): number => {
    collectGarbage();
    return process.memoryUsage().arrayBuffers / 2 ** 20;
  };
  const before = heldMegabytes();
  const hang = () => new Promise<void>(() => {});
  const send = (bytes: Uint8Array) => calls.run(1, 'a call', () => Promise.resolve(bytes.length));
  for (let call = 1; call <= 2; call += 1) await expect(calls.run(1, 'a call', hang)).rejects.toThrow();
  for (let call = 1; call <= MEGABYTES; call += 1)
    await expect(send(new Uint8Array(2 ** 20))).rejects.toThrow('timeout expired: a call');
  expect(heldMegabytes() - before).toBeLessThan(MEGABYTES / 4);
});

test('a call that fails makes room for the next', async () => {
  const calls = new BoundedCalls(systemClock);
  const fail = () => Promise.reject(new Error('no'));
  for (let call = 1; call <= 5; call += 1)
    await expect(calls.run(30_000, 'a call', fail)).rejects.toThrow('no');
});
