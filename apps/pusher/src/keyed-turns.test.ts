import { expect, test } from 'vitest';
import { KeyedTurns } from './keyed-turns.ts';

test('tasks of one key run one after the other, also after one that failed; keys do not wait for each other', async () => {
  const turns = new KeyedTurns();
  const log: string[] = [];
  const gate = Promise.withResolvers<void>();
  const first = turns.run('a', async () => {
    log.push('a1 begins');
    await gate.promise;
    log.push('a1 ends');
    throw new Error('a1 failed');
  });
  const second = turns.run('a', async () => {
    log.push('a2');
    return 2;
  });
  await turns.run('b', async () => {
    log.push('b1');
  });
  gate.resolve();
  await expect(first).rejects.toThrow('a1 failed');
  expect(await second).toBe(2);
  expect(log).toEqual(['a1 begins', 'b1', 'a1 ends', 'a2']);
});
