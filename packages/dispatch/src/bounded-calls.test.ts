import { expect, test } from 'vitest';
import { BoundedCalls } from './bounded-calls.ts';
import { systemClock } from './clock.ts';

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

test('a call that fails makes room for the next', async () => {
  const calls = new BoundedCalls(systemClock);
  const fail = () => Promise.reject(new Error('no'));
  for (let call = 1; call <= 5; call += 1)
    await expect(calls.run(30_000, 'a call', fail)).rejects.toThrow('no');
});
